"""The core of omn: what a question is, and how it becomes a number. It knows no source."""

__version__ = "0.1.0"

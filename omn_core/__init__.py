"""The core of omn: what a question is, and how it becomes a number. It knows no source."""

__version__ = "0.1.0"

SCHEMA = 1
"""Version of the names and the nesting of a run's document. It goes up when one of them changes or goes."""

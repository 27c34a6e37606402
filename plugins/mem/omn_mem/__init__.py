"""The memory family: what processes, cgroups and the machine hold, and what moves."""

__version__ = "0.1.0"

"""Recordings read back into answers."""

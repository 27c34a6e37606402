"""A recording as a Perfetto trace: its tracks, spans, counters and flows."""

"""A harness recorded while it works: hooks, telemetry and session files, kept in a journal, then published."""

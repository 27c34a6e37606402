"""The Perfetto trace writer: tracks, events on them, and the file they make. It knows nothing of what they mean."""

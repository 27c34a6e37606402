"""Sessions of coding agents: imported as Perfetto recordings, and read back."""

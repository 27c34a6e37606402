"""Files in formats that other tools read."""

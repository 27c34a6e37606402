"""Files of /proc: what they hold, read and parsed apart."""

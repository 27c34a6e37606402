"""The run: a program launched stopped, collectors bound to it, one window on one clock, and what it all cost."""

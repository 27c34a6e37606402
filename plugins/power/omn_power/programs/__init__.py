"""The programs that run in the kernel, a module for each source."""

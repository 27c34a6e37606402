"""The calls that Python has no spelling for, compiled against the kernel's headers."""

"""The cpu family: time on and off the processors, as the kernel's own accounts state it."""

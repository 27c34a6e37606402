"""Programs that run in the kernel for the process family."""

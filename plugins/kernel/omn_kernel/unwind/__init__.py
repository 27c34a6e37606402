"""Walking the user stacks that samples copied, by the unwind information of the code: x86-64, .eh_frame."""

"""From a question to the mechanism that answers it: completed, checked, and walked down its source's chain."""

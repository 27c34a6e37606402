"""The io family: what block devices moved, how busy they were, and what processes read and wrote."""

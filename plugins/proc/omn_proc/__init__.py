"""The process family: which tasks there are, what they hold, and what bounds them."""

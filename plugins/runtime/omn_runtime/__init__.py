"""The runtime family: what the functions of a program do, call by call."""

"""How answers are written: one module per encoder. Only these and the command line print."""

"""What is made of events: one module per emit, and the division of events into series."""

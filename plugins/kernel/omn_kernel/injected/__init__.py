"""Libraries inside programs that omn launches: how one gets there, the memory it writes to, and what it wrote."""

"""Names for addresses: which mapping an address stood in at that time, which file that was, which function of it."""

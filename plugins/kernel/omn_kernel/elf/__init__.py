"""ELF files: sections, segments, symbols, notes and procedure linkage tables, from bytes that nobody vouches for."""

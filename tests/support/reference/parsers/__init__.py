"""Each tool's output as figures by name, in omn's units. Pure functions of text."""

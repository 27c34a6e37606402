"""A Redis server's own counters, asked over its socket: a family written outside omn's tree."""

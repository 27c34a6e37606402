"""The catalog: read, checked against its own rules, and kept so that a warm start parses no YAML."""

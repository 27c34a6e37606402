"""Session files: the same question as the command line's, in YAML, JSON or TOML."""

"""The session files of coding agents, read into recordings."""

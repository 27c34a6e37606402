"""Questions to the machine: one function for each requirement class, asking the feature and not a version."""

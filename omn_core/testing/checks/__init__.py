"""The checks of the conformance kit, by what they look at. Each yields a line for each place where a rule is broken."""

"""The kernel's own type information: what it has, where its fields lie, and what its functions take."""

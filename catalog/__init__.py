"""The data that every catalog shares: the vocabulary, the unwind chain, what each distribution provides."""

"""Workloads of pairs beside those that `omn_core.testing.workloads` publishes, by what they have the kernel do."""

"""eBPF: programs assembled in Python, the maps they keep, and what they send. See bpf(2)."""

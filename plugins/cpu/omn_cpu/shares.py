"""What cpu.util says of cpu time: its share of an interval, in cpus, and its parts'."""

from __future__ import annotations

from omn_kernel.counters import Growth


def compute_shares(growth: Growth) -> dict[str, int | float | None]:
    """Compute `util` of `oncpu_ns`, and the share of each part (`user_ns` gives `user`), beside both lengths."""
    oncpu_ns = growth.by["oncpu_ns"]
    parts = {
        name.removesuffix("_ns"): part_ns / growth.length_ns
        for name, part_ns in growth.by.items()
        if name != "oncpu_ns"
    }
    return {
        "util": oncpu_ns / growth.length_ns,
        **parts,
        "oncpu_ns": oncpu_ns,
        "interval_ns": growth.length_ns,
    }

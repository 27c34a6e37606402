"""The types of eBPF maps, and what sets each apart for those who read them."""

from __future__ import annotations

import enum
from typing import Final


class MapType(enum.Enum):
    """A type of map, by its name in <linux/bpf.h> without BPF_MAP_TYPE_."""

    HASH = "HASH"
    LRU_HASH = "LRU_HASH"
    PERCPU_HASH = "PERCPU_HASH"
    LRU_PERCPU_HASH = "LRU_PERCPU_HASH"
    ARRAY = "ARRAY"
    PERCPU_ARRAY = "PERCPU_ARRAY"
    ARRAY_OF_MAPS = "ARRAY_OF_MAPS"
    STACK_TRACE = "STACK_TRACE"
    TASK_STORAGE = "TASK_STORAGE"
    PERF_EVENT_ARRAY = "PERF_EVENT_ARRAY"
    CGROUP_ARRAY = "CGROUP_ARRAY"
    RINGBUF = "RINGBUF"

    @property
    def is_per_cpu(self) -> bool:
        """Whether each cpu has a value of its own under a key."""
        return self.value.startswith("PERCPU_") or self is MapType.LRU_PERCPU_HASH

    @property
    def is_hash(self) -> bool:
        """Whether entries come and go, so that all of them can be taken out."""
        return self.value.endswith("HASH")

    @property
    def is_storage(self) -> bool:
        """Whether each entry hangs on a task, which ends with it."""
        return self is MapType.TASK_STORAGE


NO_PREALLOCATION: Final = "BPF_F_NO_PREALLOC"
"""The flag of maps whose entries take memory only once they are there."""

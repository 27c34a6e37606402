"""What the records of classic tracepoints say of the arguments that their raw ones hand over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import attrs

from omn_core.api import ResolvedRequest

_BACKEND = "bpf:tp"


def reads_records(resolved: ResolvedRequest) -> bool:
    """Tell whether a request is served by programs on classic tracepoints, which do without the kernel's types."""
    return resolved.backend.id == _BACKEND


@attrs.frozen(repr=False)
class ToldTask:
    """A task that a record tells of: the fields of its number and of its name. `is_current` of the one that runs.

    The name of that one need not be in the record.
    """

    number: str
    comm: str | None
    is_current: bool = False


WHOLE = ""
"""An argument that the record stands for as a whole: the registers of a system call, whose arguments are in it."""
Argument: TypeAlias = str | ToldTask


@attrs.frozen(repr=False)
class Recorded:
    """A tracepoint's category in tracefs, and by their place those of its arguments that its record tells."""

    category: str
    arguments: Mapping[int, Argument]


_TASK = ToldTask("pid", "comm")
# The kernel decides where a task goes as that faults (task_numa_fault).
_CURRENT, _SOURCE = (ToldTask(number, None, is_current=True) for number in ("pid", "src_pid"))

RECORDED = {
    "sched_switch": Recorded(
        "sched", {1: ToldTask("prev_pid", "prev_comm", is_current=True), 2: ToldTask("next_pid", "next_comm")}
    ),
    "sched_waking": Recorded("sched", {0: _TASK}),
    "sched_wakeup": Recorded("sched", {0: _TASK}),
    "sched_wakeup_new": Recorded("sched", {0: _TASK}),
    "sched_migrate_task": Recorded("sched", {0: _TASK, 1: "dest_cpu"}),
    "sched_stat_runtime": Recorded("sched", {0: _TASK, 1: "runtime"}),
    "sched_process_free": Recorded("sched", {0: _TASK}),
    "sched_process_exec": Recorded("sched", {}),
    "irq_handler_entry": Recorded("irq", {0: "irq"}),
    "irq_handler_exit": Recorded("irq", {0: "irq"}),
    "softirq_raise": Recorded("irq", {0: "vec"}),
    "softirq_entry": Recorded("irq", {0: "vec"}),
    "softirq_exit": Recorded("irq", {0: "vec"}),
    "contention_begin": Recorded("lock", {0: "lock_addr", 1: "flags"}),
    "contention_end": Recorded("lock", {0: "lock_addr", 1: "ret"}),
    "block_rq_insert": Recorded("block", {}),
    "block_rq_issue": Recorded("block", {}),
    "block_rq_merge": Recorded("block", {}),
    "block_rq_complete": Recorded("block", {}),
    "cpu_idle": Recorded("power", {0: "state", 1: "cpu_id"}),
    "cpu_frequency": Recorded("power", {0: "state", 1: "cpu_id"}),
    "cdev_update": Recorded("thermal", {1: "target"}),
    "inet_sock_set_state": Recorded("sock", {0: "skaddr", 1: "oldstate", 2: "newstate"}),
    "tcp_destroy_sock": Recorded("tcp", {0: "skaddr"}),
    "tcp_rcv_space_adjust": Recorded("tcp", {0: "skaddr"}),
    "tcp_retransmit_skb": Recorded("tcp", {0: "skaddr"}),
    "tcp_retransmit_synack": Recorded("tcp", {0: "skaddr", 1: "req"}),
    **{
        f"writeback_{name}": Recorded("writeback", {})
        for name in ("queue", "exec", "start", "written", "single_inode_start", "single_inode")
    },
    "kfree_skb": Recorded("skb", {1: "location", 2: "reason"}),
    "sched_move_numa": Recorded("sched", {0: _CURRENT, 1: "src_cpu", 2: "dst_cpu"}),
    "sched_swap_numa": Recorded("sched", {0: _SOURCE, 1: "src_cpu", 3: "dst_cpu"}),
    "sched_stick_numa": Recorded("sched", {0: _SOURCE, 1: "src_cpu", 3: "dst_cpu"}),
    "sys_enter": Recorded("raw_syscalls", {0: WHOLE, 1: "id"}),
    "sys_exit": Recorded("raw_syscalls", {0: WHOLE, 1: "ret"}),
}
"""By the tracepoint's name. The place of an argument is that of its prototype, which all kernels have alike."""

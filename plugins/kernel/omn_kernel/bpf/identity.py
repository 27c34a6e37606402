"""Who a task's process is, read in the kernel while it lives, so that one that has ended by the close is named too."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from omn_core.api import Column, Names
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.columns import make_named_column
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R1, R2, R3, R4, Register
from omn_kernel.btf.fields import get_fields, get_size

Array = npt.NDArray[Any]

PROCESS_FIELDS = [("proc_inode", "u4"), ("proc_number", "u4")]
"""The fields of a record that `copy_process` fills: the pid namespace's inode, and the pid inside it."""

_NUMBER = np.dtype([("number", np.uint32), ("pad", np.uint32), ("namespace", np.uint64)])
"""struct upid of <linux/pid.h>: a process's number in a namespace, and the namespace."""


def copy_process(program: KernelAssembly, record: Record, task: Register) -> None:
    """Emit what copies to a record who the process of a task is, by its pid namespace and its number in that.

    The register is one of R6 to R9. R0 to R5 hold nothing after it. Raises FieldMissing.
    """
    types, upid = program.types, program.reserve(_NUMBER)
    (numbers,) = get_fields(types, "pid", "numbers[0].nr")
    (inode,) = get_fields(types, "pid_namespace", "ns.inum")
    program.read_field(R4, task, "task_struct", "group_leader.thread_pid")
    program.set(upid, "namespace", R4)
    program.read_field(R3, R4, "pid", "level")
    program.compute(R3, "*=", get_size(types, "upid"))
    # The last of its numbers, at a place that is only known there: the verifier lets it be copied, not loaded.
    program.get(R4, upid, "namespace")
    program.compute(R3, "+=", R4)
    program.compute(R3, "+=", numbers.offset)
    program.move(R2, _NUMBER.itemsize)
    program.point_at(R1, upid)
    program.call("probe_read_kernel")
    program.get(R1, upid, "number")
    program.set(record, "proc_number", R1)
    program.get(R3, upid, "namespace")
    program.compute(R3, "+=", inode.offset)
    program.move(R2, inode.size)
    program.point_at(R1, record, "proc_inode")
    program.call("probe_read_kernel")


def make_process_column(records: Array, names: Names) -> Column:
    """Make the column of the key `proc` of what `copy_process` copied; absent where that could not be read."""
    pairs = records["proc_inode"].astype(np.uint64) << np.uint64(32) | records["proc_number"].astype(np.uint64)
    return make_named_column(pairs, _spell_process, names)


def _spell_process(pair: int) -> str | None:
    inode, number = pair >> 32, pair & 0xFFFFFFFF
    return f"{inode}:{number}" if inode else None

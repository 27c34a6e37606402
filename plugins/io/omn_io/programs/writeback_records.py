"""The programs of io.writeback on classic tracepoints, whose records tell neither a work's place nor an inode's names.

What is queued is found again by what its record says: the device and the cgroup that write, the file system, why and
how. Where two such wait at once nobody can tell which of them a worker takes up, nor whose it is.
"""

from __future__ import annotations

import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.reading import TaskAssembly
from omn_kernel.bpf.records import RecordedAssembly
from omn_kernel.bpf.registers import R0, R1, R2, R3, R6, R9
from omn_kernel.bpf.task_states import TaskStates
from omn_kernel.bpf.tasks import TaskFields

from omn_io.programs.writeback import Writebacks

_NAME = ("bdi", "S32")
DEVICE_LAYOUT = [_NAME]
"""The field that names the device of an inode, as the kernel calls what writes to it (struct backing_dev_info)."""
_DEVICE_AT, _REASON_AT = 32, 8
_FLAGS = {"sync_mode": 4, "for_kupdate": 1, "for_background": 0}
"""Where the parts of a work's number begin."""
_IS_WORK = 1 << 24
"""No work has the number 0, which is that of none."""


class RecordedWritebacks(Writebacks):
    """Writes the programs by records. `has_device` asks for the device of an inode."""

    work = np.dtype([_NAME, ("cgroup", "u8"), ("work", "u8")])

    def __init__(self, fields: TaskFields, states: TaskStates, *, has_device: bool) -> None:
        super().__init__(fields, states)
        self._has_device = has_device

    def read_work(self, program: TaskAssembly) -> None:
        """Put what stays the same while a work is done into one number; how many pages are left does not."""
        if isinstance(program, RecordedAssembly):
            program.read_record(R9, R6, program.fields["sb_dev"])
            program.compute(R9, "<<=", _DEVICE_AT)
            for name, place in {"reason": _REASON_AT, **_FLAGS}.items():
                program.read_record(R1, R6, program.fields[name])
                program.compute(R1, "<<=", place)
                program.compute(R9, "|=", R1)
            program.compute(R9, "|=", _IS_WORK)

    def read_reason(self, program: TaskAssembly) -> None:
        """Take it out of the number."""
        program.move(R1, R9)
        program.compute(R1, ">>=", _REASON_AT)
        program.compute(R1, "&=", 0xFF)

    def set_work(self, program: TaskAssembly, key: Record) -> None:
        """Set the number and what writes: of several devices and cgroups the same is asked at once."""
        if isinstance(program, RecordedAssembly):
            program.read_record(R1, R6, program.fields["cgroup_ino"])
            program.set(key, "cgroup", R1)
        self._copy_device(program, key)
        program.set(key, "work", R9)

    def tell_shared(self, program: TaskAssembly, key: Record, asked: Record) -> None:
        """Look whether one like it waits already."""
        program.look_up(self._works, key)
        with program.when(R0, "!=", 0):
            program.set(asked, "is_untold", 1)

    def read_pages(self, program: TaskAssembly) -> None:
        """Read them from the record."""
        if isinstance(program, RecordedAssembly):
            program.read_record(R9, R6, program.fields["wrote"])

    def write_file(self, program: TaskAssembly, record: Record) -> None:
        """Write the device, which is all that is told of where an inode is."""
        if self._has_device:
            self._copy_device(program, record)

    def _copy_device(self, program: TaskAssembly, record: Record) -> None:
        if isinstance(program, RecordedAssembly):
            program.move(R3, R6)
            program.compute(R3, "+=", program.fields["name"].offset)
            program.move(R2, record.locate("bdi")[1])
            program.point_at(R1, record, "bdi")
            program.call("probe_read_kernel")

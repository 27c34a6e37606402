"""Programs on classic tracepoints that are written as those on raw ones are, without the kernel's types.

A register stands for a task by its number: of the task that runs helpers tell the process and the name, of any other
the follower tells the process and the record the name. Of nothing else of a task is anything known: not its parent, its
pid namespace or where it waits.
"""

from __future__ import annotations

import attrs

from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.followers import RecordFollower
from omn_kernel.bpf.hooks import Tracepoint
from omn_kernel.bpf.reading import TaskAssembly
from omn_kernel.bpf.record_arguments import RECORDED, WHOLE, ToldTask
from omn_kernel.bpf.registers import R0, R1, R2, R3, Register
from omn_kernel.tracepoints import RecordField, read_format

_BITS, _WORD = 32, 8
_TEXT_PLACE, _PLACE_BITS = 4, 0xFFFF
"""How wide a field is that says where a text lies (__data_loc), and which bits say it; the others are its length."""
_ONE_CALL = 16
"""Where the arguments begin in the record of one call (struct syscall_trace_enter), each of a word."""


@attrs.frozen(repr=False)
class _Told:
    """What tells of the task that a register stands for: the field of its name in the record, None for helpers."""

    is_current: bool
    comm: RecordField | None = None
    context: Register = R1


class RecordedAssembly(TaskAssembly):
    """A program at a classic tracepoint. `follower` keeps the target's processes, None where it is none.

    Of sys_enter and sys_exit, `call` is the one that it runs at alone, of 64-bit code. Without one it runs at all
    calls, and those of 32-bit code cannot be told. A raw tracepoint has no such choice, so that a program for both asks
    for the number of the call in any case.

    Which task a register stands for is what it was last set to, in the order in which the program is written. Raises
    MachineRefused where tracefs is closed.
    """

    def __init__(self, name: str, tracepoint: str, follower: RecordFollower | None, *, call: str | None = None) -> None:
        super().__init__(name)
        self._recorded = RECORDED[tracepoint]
        self._follower = follower
        self._told: dict[Register, _Told] = {}
        category = self._recorded.category
        self.hook = Tracepoint(f"{category}/{tracepoint}" if call is None else f"syscalls/{tracepoint}_{call}")
        self.fields = read_format(self.hook.name)

    def read_argument(self, target: Register, context: Register, position: int) -> None:
        """Read what the record says of an argument: of a task, its number."""
        argument = self._recorded.arguments[position]
        if isinstance(argument, ToldTask):
            self.read_record(target, context, self.fields[argument.number])
            comm = None if argument.comm is None else self.fields[argument.comm]
            self._told[target] = _Told(argument.is_current, comm, context)
        elif argument == WHOLE:
            self.move(target, context)
        elif argument == "id":
            self.read_call_number(target, context)
        else:
            self.read_record(target, context, self.fields[argument])

    def read_call_number(self, target: Register, context: Register) -> None:
        """Read the number of the call that the record is of."""
        self.read_record(target, context, self.fields["id" if "id" in self.fields else "__syscall_nr"])

    def read_call_argument(self, target: Register, context: Register, position: int) -> None:
        """Read an argument of the call that the record is of; 0 for one that it does not have, of a return any."""
        every = self.fields.get("args")
        offset = (_ONE_CALL if every is None else every.offset) + _WORD * position
        told = {field.offset for field in self.fields.values()} if "ret" not in self.fields else ()
        if every is None and offset not in told:
            self.move(target, 0)
        else:
            self.load(target, context, offset, _WORD)

    def point_to_current(self, target: Register) -> None:
        """Set a register to the number of the task that runs."""
        self.call("get_current_pid_tgid")
        self.move(target, R0)
        self.compute(target, "<<=", _BITS)
        self.compute(target, ">>=", _BITS)
        self._told[target] = _Told(is_current=True)

    def is_current(self, task: Register) -> bool:
        """Tell whether a register stands for the task that runs."""
        return self._told[task].is_current

    def read_thread(self, target: Register, task: Register) -> None:
        """Set a register to the number, which is what stands for the task."""
        if target != task:
            self.move(target, task)

    def read_process(self, target: Register, task: Register) -> None:
        """Ask the helper of the task that runs, the follower of any other; 0 where there is none."""
        if self._told[task].is_current:
            self.call("get_current_pid_tgid")
            self.move(target, R0)
            self.compute(target, ">>=", _BITS)
        elif self._follower is None:
            self.move(target, 0)
        else:
            end = self.make_label("process")
            self._follower.find_process(self, task)
            self.move(target, R0)
            self.jump_if(R0, "==", 0, end)
            self._follower.get_process(self, target, R0)
            self.label(end)

    def copy_comm(self, record: Record, field: str, task: Register) -> None:
        """Copy the name from the record, or ask the helper where it does not tell of the task."""
        told = self._told[task]
        if told.comm is not None:
            self.copy_text(record, field, told.context, told.comm)
            return
        self.point_at(R1, record, field)
        self.move(R2, record.locate(field)[1])
        self.call("get_current_comm")

    def copy_text(self, target: Record, field: str, context: Register, source: RecordField) -> None:
        """Copy a text that lies in the record or, of a length of its own, behind it, into a field that is all zero.

        R0 to R5 hold nothing after it.
        """
        size = target.locate(field)[1]
        if source.size == _TEXT_PLACE:
            self.read_record(R3, context, source)
            self.compute(R3, "&=", _PLACE_BITS)
            self.compute(R3, "+=", context)
        else:
            self.move(R3, context)
            self.compute(R3, "+=", source.offset)
            size = min(size, source.size)
        self.move(R2, size)
        self.point_at(R1, target, field)
        self.call("probe_read_kernel_str")

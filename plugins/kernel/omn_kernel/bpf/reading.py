"""Programs that read the kernel: arguments, fields of its structures, records of its tracepoints."""

from __future__ import annotations

from abc import ABC, abstractmethod

from omn_kernel.bpf.assembly import Assembly, Record
from omn_kernel.bpf.registers import R0, R1, R2, R3, R10, Register
from omn_kernel.btf.cpu_variables import compute_distance
from omn_kernel.btf.fields import Field, get_enumerator, get_fields, has_field
from omn_kernel.btf.types import Btf
from omn_kernel.tracepoints import RecordField

_WORD = 8


class RecordAssembly(Assembly):
    """A program that reads memory of the kernel through a helper, and the records of its classic tracepoints."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._scratch: Record | None = None

    def read_record(self, target: Register, context: Register, field: RecordField) -> None:
        """Read a field of a classic tracepoint's record, where its format file says that it is.

        The verifier lets a context be loaded only at a multiple of what is loaded; another field is copied.
        """
        if field.offset % field.size == 0:
            self.load(target, context, field.offset, field.size)
        else:
            self._copy_to_scratch(context, field.offset, field.size)
            self.load(target, R10, self._get_scratch().offset, field.size)
        if field.is_signed:
            self._extend(target, field.size)

    def copy_memory(self, target: Register, source: Register, offset: int = 0, size: int = _WORD) -> None:
        """Set a register to 1, 2, 4 or 8 bytes of the kernel's memory, so far from what a register points to.

        It is read through a helper: R0 to R5 hold nothing after it but the value. What cannot be read is zero.
        """
        self._copy_to_scratch(source, offset, size)
        self.load(target, R10, self._get_scratch().offset, size)

    def _copy_to_scratch(self, source: Register, offset: int, size: int) -> None:
        self.move(R3, source)
        if offset:
            self.compute(R3, "+=", offset)
        self.move(R2, size)
        self.point_at(R1, self._get_scratch())
        self.call("probe_read_kernel")

    def _get_scratch(self) -> Record:
        if self._scratch is None:
            self._scratch = self.reserve("u8")
        return self._scratch

    def _extend(self, target: Register, size: int) -> None:
        if size < _WORD:
            self.compute(target, "<<=", 64 - 8 * size)
            self.compute(target, "s>>=", 64 - 8 * size)


class TaskAssembly(RecordAssembly, ABC):
    """A program at a tracepoint that is told of tasks: a register stands for each, by what is handed over of it.

    With the kernel's types that is a pointer to its task_struct (`KernelAssembly`), without them its number
    (`records.RecordedAssembly`). A program that asks no more of a task than this is written once for both.
    """

    @abstractmethod
    def read_argument(self, target: Register, context: Register, position: int) -> None:
        """Read an argument of the tracepoint, counted from 0, where R1 was kept in `context` when the program began."""

    @abstractmethod
    def point_to_current(self, target: Register) -> None:
        """Set a register to the task that runs. R0 to R5 hold nothing of the program's after it."""

    @abstractmethod
    def read_thread(self, target: Register, task: Register) -> None:
        """Read the number of a task. R0 to R5 hold nothing else after it."""

    @abstractmethod
    def read_process(self, target: Register, task: Register) -> None:
        """Read the number of a task's process, 0 where nobody tells it. R0 to R5 hold nothing else after it."""

    @abstractmethod
    def copy_comm(self, record: Record, field: str, task: Register) -> None:
        """Copy what a task calls itself into a record's field of 16 bytes. R0 to R5 hold nothing after it."""


class KernelAssembly(TaskAssembly):
    """A program with the kernel's types at hand, which places every field that it names on the running kernel.

    The pointers that a program at a typed tracepoint (or at a function) is handed have types that the verifier knows:
    they are followed by loads. Elsewhere (`has_typed_pointers` False) a pointer is a number, and what it points to is
    read through a helper. So that one text serves both, reading a field leaves nothing in R0 to R5 but its value.
    """

    def __init__(self, name: str, types: Btf, *, has_typed_pointers: bool) -> None:
        super().__init__(name)
        self.types = types
        self.has_typed_pointers = has_typed_pointers

    def has_field(self, type_name: str, path: str = "") -> bool:
        """Return whether this kernel has a type, or a field of it: the two shapes that a program is written in."""
        return has_field(self.types, type_name, path)

    def get_enumerator(self, enumeration: str, name: str) -> int:
        """Return the value of a name of an enumeration on this kernel. Raises FieldMissing."""
        return get_enumerator(self.types, enumeration, name)

    def point_to_current(self, target: Register) -> None:
        """Set a register to the task that runs. R0 to R5 hold nothing of the program's after it.

        A typed one takes Linux 5.11.
        """
        self.call("get_current_task_btf" if self.has_typed_pointers else "get_current_task")
        self.move(target, R0)

    def read_cpu_variable(self, target: Register, name: str, path: str = "") -> None:
        """Read a variable that each cpu has, or a field of it, of the cpu that this runs on. Raises FieldMissing.

        R0 to R5 hold nothing after it but the value. Nothing has to tell where it lies (kallsyms does under
        CONFIG_KALLSYMS_ALL alone): how far it is from the cpu's run queue is known, and the task that runs leads to
        that.
        """
        distance = compute_distance(self.types, "runqueues", name)
        inner = get_fields(self.types, name, path)[0] if path else Field(0, 4, 0)
        self.point_to_current(R3)
        self.read_field(R3, R3, "task_struct", "se.cfs_rq.rq", is_copied=True)
        self._copy_to_scratch(R3, distance + inner.offset, inner.size)
        self.load(target, R10, self._get_scratch().offset, inner.size)

    def read_argument(self, target: Register, context: Register, position: int) -> None:
        """Read an argument of a raw or typed tracepoint, or of a function that is entered, counted from 0."""
        self.load(target, context, _WORD * position, _WORD)

    def read_thread(self, target: Register, task: Register) -> None:
        """Read the number of a task from its task_struct."""
        self.read_field(target, task, "task_struct", "pid")

    def read_process(self, target: Register, task: Register) -> None:
        """Read the number of a task's process from its task_struct."""
        self.read_field(target, task, "task_struct", "tgid")

    def copy_comm(self, record: Record, field: str, task: Register) -> None:
        """Copy a task's name from its task_struct."""
        self.copy_field(record, field, task, "task_struct", "comm")

    def read_field(
        self, target: Register, source: Register, type_name: str, path: str, *, is_copied: bool = False
    ) -> None:
        """Read a field of what a register points to: `read_field(R1, R6, "task_struct", "signal.tty.index")`.

        Where the path goes through pointers they are followed; a null pointer makes zero. `is_copied` reads through the
        helper although the pointer has a type: the verifier lets nothing be loaded past an array that has no length.
        Raises FieldMissing where this kernel has no such field, ValueError where no register holds it (`copy_field`).
        """
        *pointers, last = get_fields(self.types, type_name, path)
        if last.size not in (1, 2, 4, 8):
            raise ValueError(f"{type_name}.{path} has {last.size} bytes, and a register holds 8")
        for field in pointers:
            self._read_memory(target, source, field, is_copied)
            source = target
        self._read_memory(target, source, last, is_copied)
        self._cut(target, last)

    def copy_field(self, record: Record, field: str, source: Register, type_name: str, path: str) -> None:
        """Copy a field of what a register points to, such as a name, into a record's field of the same size."""
        *pointers, last = get_fields(self.types, type_name, path)
        _, size = record.locate(field)
        if size != last.size:
            raise ValueError(f"{type_name}.{path} has {last.size} bytes, and {field} has {size}")
        for pointer in pointers:
            self._read_memory(R3, source, pointer, False)
            source = R3
        self._point(source, last)
        self.move(R2, size)
        self.point_at(R1, record, field)
        self.call("probe_read_kernel")

    def _read_memory(self, target: Register, source: Register, field: Field, is_copied: bool) -> None:
        if self.has_typed_pointers and not is_copied:
            self.load(target, source, field.offset, field.size)
        else:
            self._copy_to_scratch(source, field.offset, field.size)
            self.load(target, R10, self._get_scratch().offset, field.size)

    def _point(self, source: Register, field: Field) -> None:
        if source != R3:
            self.move(R3, source)
        if field.offset:
            self.compute(R3, "+=", field.offset)

    def _cut(self, target: Register, field: Field) -> None:
        """Leave of what was loaded the field: its bits alone, and its sign."""
        if field.bit_size:
            self.compute(target, "<<=", 64 - field.bit_offset - field.bit_size)
            self.compute(target, "s>>=" if field.is_signed else ">>=", 64 - field.bit_size)
        elif field.is_signed:
            self._extend(target, field.size)

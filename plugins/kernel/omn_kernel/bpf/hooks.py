"""What programs are attached to: the kernel's tracepoints and functions, programs' functions, perf events."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from omn_kernel.btf.fields import FieldMissing
from omn_kernel.btf.types import Btf
from omn_kernel.perf.attributes import EventAttributes, Place


@attrs.frozen(repr=False)
class _Plain:
    """A hook that is loaded for by its type alone."""

    @property
    def attach_type(self) -> str:
        """Nothing: the type says it."""
        return ""

    def get_attach_id(self) -> int:
        """Return 0: a program of this type is attached to anything."""
        return 0


@attrs.frozen(repr=False)
class RawTracepoint(_Plain):
    """A tracepoint by name, whose arguments are handed over as numbers."""

    name: str
    program_type = "RAW_TRACEPOINT"

    @property
    def spelling(self) -> str:
        """The tracepoint's name."""
        return f"raw tracepoint {self.name}"


@attrs.frozen(repr=False)
class TypedTracepoint:
    """A tracepoint by name, whose arguments have types that the verifier knows (Linux 5.5)."""

    name: str
    types: Btf = attrs.field(repr=False)
    program_type = "TRACING"
    attach_type = "BPF_TRACE_RAW_TP"

    @property
    def spelling(self) -> str:
        """The tracepoint's name."""
        return f"typed tracepoint {self.name}"

    def get_attach_id(self) -> int:
        """Return the number of its prototype. Raises FieldMissing where the kernel has no such tracepoint."""
        number = self.types.find_tracepoint(self.name)
        if number is None:
            raise FieldMissing(f"tracepoint {self.name}", "", "there is no such tracepoint")
        return number


@attrs.frozen(repr=False)
class Function:
    """A function of the kernel, where it is entered, or where it returns."""

    name: str
    types: Btf = attrs.field(repr=False)
    is_exit: bool = False
    program_type = "TRACING"

    @property
    def spelling(self) -> str:
        """The function's name."""
        return f"{'exit' if self.is_exit else 'entry'} of {self.name}"

    @property
    def attach_type(self) -> str:
        """Where in the function."""
        return "BPF_TRACE_FEXIT" if self.is_exit else "BPF_TRACE_FENTRY"

    def get_attach_id(self) -> int:
        """Return the function's number. Raises FieldMissing where the kernel has none of that name."""
        number = self.types.find_function(self.name)
        if number is None:
            raise FieldMissing(f"function {self.name}", "", "there is no such function")
        return number


@attrs.frozen(repr=False)
class Tracepoint(_Plain):
    """A tracepoint of tracefs (`sched/sched_switch`), which hands over its record."""

    name: str
    program_type = "TRACEPOINT"

    @property
    def spelling(self) -> str:
        """The tracepoint's category and name."""
        return f"tracepoint {self.name}"


@attrs.frozen(repr=False)
class KernelProbe(_Plain):
    """An instruction of a kernel's function, its first; or its return."""

    function: str
    is_return: bool = False
    program_type = "KPROBE"

    @property
    def spelling(self) -> str:
        """The function's name."""
        return f"kprobe on {'the return of ' if self.is_return else ''}{self.function}"


@attrs.frozen(repr=False)
class UserProbe(_Plain):
    """An offset in a file that programs map, in one process or (pid None) in all; or the return from there.

    `counter` is where in the file a variable of 2 bytes stands, to which the kernel adds one in each process that maps
    it writable while the probe is there (Linux 4.20); 0 for none.
    """

    path: str
    offset: int
    pid: int | None = None
    is_return: bool = False
    counter: int = 0
    program_type = "KPROBE"

    @property
    def spelling(self) -> str:
        """The file and the offset."""
        return f"uprobe on {self.path}+{self.offset:#x}"


@attrs.frozen(repr=False)
class UserProbes:
    """Many offsets of a file in one link (Linux 6.6); a cookie is what the program reads to tell them apart."""

    path: str
    offsets: Sequence[int]
    cookies: Sequence[int] = ()
    pid: int | None = None
    is_return: bool = False
    program_type = "KPROBE"
    attach_type = "OMN_BPF_TRACE_UPROBE_MULTI"

    @property
    def spelling(self) -> str:
        """The file."""
        return f"uprobes on {self.path}"

    def get_attach_id(self) -> int:
        """Return 0: the link names the file."""
        return 0


@attrs.frozen(repr=False)
class Overflow(_Plain):
    """A perf event each time that it has counted its period."""

    event: EventAttributes
    place: Place
    program_type = "PERF_EVENT"

    @property
    def spelling(self) -> str:
        """The event's place."""
        return f"perf event on {'task' if self.place.is_task else 'cpu'} {max(self.place.pid, self.place.cpu)}"

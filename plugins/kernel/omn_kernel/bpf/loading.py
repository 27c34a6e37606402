"""Programs loaded into the kernel, and the account that it keeps of them. Closing the descriptor unloads a program."""

from __future__ import annotations

import errno
import functools
import os
import re
from typing import Protocol

import attrs

from omn_kernel.bpf.assembly import Assembled
from omn_kernel.bpf.descriptors import Descriptor
from omn_kernel.bpf.locked_memory import make_charged
from omn_kernel.bpf.refusals import refuse_program
from omn_kernel.bpf.rejections import ProgramRejected
from omn_kernel.native import calls
from omn_kernel.polled import read_file

_LOG_BYTES, _MOST_LOG_BYTES = 1 << 18, 1 << 24
_TIMED = "/proc/sys/kernel/bpf_stats_enabled"
_NAME_BYTES = 15
_NOT_IN_NAMES = re.compile(rb"[^\w.]", re.ASCII)


class Hook(Protocol):
    """What a program is attached to, as the kernel asks it when the program is loaded."""

    @property
    def spelling(self) -> str:
        """The hook in words: `tracepoint sched_switch`."""

    @property
    def program_type(self) -> str:
        """The program's type, without BPF_PROG_TYPE_."""

    @property
    def attach_type(self) -> str:
        """What it is attached as, a name of <linux/bpf.h>; empty where its type has no such thing."""

    def get_attach_id(self) -> int:
        """Return the number of the type that it is attached to, 0 where its type has no such thing."""


@attrs.frozen(repr=False)
class Account:
    """What the kernel counted of a program: how long it ran, how often, and how many times it was passed over.

    Time and runs are None unless the kernel timed programs (`kernel.bpf_stats_enabled`) from the load on: it does not
    by itself, and omn never tells it to. `skipped` counts runs that were passed over because a program was running
    there already; None on kernels before 5.12, which do not count them.
    """

    run_time_ns: int | None
    runs: int | None
    skipped: int | None


class LoadedProgram(Descriptor):
    """A program that the kernel has taken, by its descriptor: unloaded once nothing it is attached to holds it."""

    def __init__(self, descriptor: int, name: str) -> None:
        super().__init__(descriptor)
        self.name = name
        self._is_timed = _read_is_timed()

    def read_account(self) -> Account:
        """Read the kernel's account of it. Raises OSError as bpf(2) does."""
        information = calls.read_program_information(self.descriptor)
        is_timed = self._is_timed and _read_is_timed()
        return Account(
            information.run_time_ns if is_timed else None,
            information.runs if is_timed else None,
            information.skipped,
        )

    def run_on(self, cpu: int) -> None:
        """Run it once on a cpu, over the task that is there (RawTracepoint alone). Raises MachineRefused."""
        try:
            calls.run_program(self.descriptor, cpu)
        except OSError as error:
            raise refuse_program(f"run on cpu {cpu}", error) from None


def load(assembled: Assembled, hook: Hook) -> LoadedProgram:
    """Load a program for what it will be attached to.

    Raises ProgramRejected with the instruction and the line where the verifier rejects it, MachineRefused where the
    kernel takes no such program from this process.
    """
    try:
        return LoadedProgram(make_charged(lambda: _load(assembled, hook, None)), assembled.name)
    except OSError as error:
        log = _read_log(assembled, hook)
        if not log.strip():
            raise refuse_program(f"program on {hook.spelling}", error) from None
        raise ProgramRejected(assembled, log) from None


def _load(assembled: Assembled, hook: Hook, log: bytearray | None) -> int:
    return calls.load_program(
        calls.get_constant(f"BPF_PROG_TYPE_{hook.program_type}"),
        assembled.instructions,
        attach_type=calls.get_constant(hook.attach_type) if hook.attach_type else 0,
        attach_id=hook.get_attach_id(),
        name=_NOT_IN_NAMES.sub(b"_", assembled.name.encode())[:_NAME_BYTES],
        log=log,
    )


def _read_log(assembled: Assembled, hook: Hook) -> str:
    """Load it again for the verifier's log, which costs time and is wanted of a failure alone."""
    size = _LOG_BYTES
    while True:
        log = bytearray(size)
        try:
            os.close(make_charged(functools.partial(_load, assembled, hook, log)))
        except OSError as error:
            if error.errno == errno.ENOSPC and size < _MOST_LOG_BYTES:
                size *= 8
                continue
        return log.split(b"\0", 1)[0].decode("utf-8", "replace")


def _read_is_timed() -> bool:
    try:
        return read_file("/", _TIMED).strip() == b"1"
    except OSError:
        return False

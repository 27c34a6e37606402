"""The ways to walk a stack: what each takes of a program at a sample, and which suits a target."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from omn_core.api import ProbeContext

if TYPE_CHECKING:
    from omn_core.api import Target

_PROGRAMS = frozenset({"launch", "pid", "tid"})
_TOP_BYTES = 512
"""What a frame that has set up no frame pointer keeps under its caller's return address, mostly."""

_STACK_BYTES = 8192
"""What perf copies too: some dozens of frames."""


@attrs.frozen(repr=False)
class StackWalk:
    """A way to walk a stack. `has_user_chains`: the kernel walks the program's frames by their frame pointers.

    `copies_registers` and `stack_bytes` are what each sample takes along.
    """

    has_user_chains: bool = False
    copies_registers: bool = False
    stack_bytes: int = 0

    def find_misfit(self, target: Target, context: ProbeContext, mode: str) -> str | None:
        """Return why another way suits a target better, in a clause; None for what is walked by nothing else."""
        if not self.copies_registers:
            return None
        if mode == "trace" and not self.has_user_chains:
            return "a copy of its stack at each event is more than many of them bear"
        if target.kind not in _PROGRAMS:
            return "what runs there is not known before"
        programs = _list_programs(target, context.sysroot)
        if self.has_user_chains:
            return next((reason for reason in map(_find_lacking, programs) if reason is not None), None)
        return next((reason for reason in map(_find_foreign, programs) if reason is not None), None)


def _list_programs(target: Target, sysroot: str) -> tuple[str, ...]:
    if target.kind == "launch":
        return (os.fspath(target.value[0]),)
    return tuple(os.path.join(sysroot, f"proc/{task}/exe") for task in target.tasks)


def _find_lacking(path: str) -> str | None:
    """Return why frame pointers do not find a program's callers, None where they do."""
    from omn_kernel.elf.source import ElfError
    from omn_kernel.unwind.frame_pointers import read_frame_pointers

    try:
        found = read_frame_pointers(path)
    except (OSError, ElfError) as error:
        return f"whether it keeps frame pointers cannot be read: {getattr(error, 'strerror', None) or error}"
    if found is None:
        return "it is no x86-64 program"
    return None if found.are_kept else found.describe()


def _find_foreign(path: str) -> str | None:
    """Return why the code of a program is not followed, None where it is, or cannot be read before it runs."""
    from omn_kernel.elf.source import ElfError
    from omn_kernel.unwind.frame_pointers import is_followed

    try:
        return None if is_followed(path) else "it is no x86-64 program"
    except (OSError, ElfError):
        return None


FP = StackWalk(has_user_chains=True)
FP_LEAF = StackWalk(has_user_chains=True, copies_registers=True, stack_bytes=_TOP_BYTES)
DWARF = StackWalk(copies_registers=True, stack_bytes=_STACK_BYTES)
NONE = StackWalk()

WALKS: Mapping[str, StackWalk] = {"fp+leaf": FP_LEAF, "dwarf": DWARF, "fp": FP, "none": NONE}
"""Each by its name in the catalog."""

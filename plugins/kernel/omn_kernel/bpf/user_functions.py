"""Programs on functions of the files that a target's processes map, wherever these are mapped.

A probe stands at a place of a file, and every process that maps the file runs into it: a program tells whether the
process is the target's. So a file can be probed before a program maps it, and what a process starts is seen as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Protocol, TypeAlias

import attrs
import numpy as np

from omn_core.api import BoundTarget
from omn_kernel.bpf.hooks import UserProbe, UserProbes
from omn_kernel.bpf.pieces import copy_from_user
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R0, R1, R3, Register
from omn_kernel.bpf.running import RunningPrograms
from omn_kernel.btf.fields import get_fields
from omn_kernel.btf.types import Btf
from omn_kernel.elf.functions import find_functions
from omn_kernel.elf.image import Image, read_image
from omn_kernel.elf.source import ElfError, File
from omn_kernel.libraries import find_program, iter_mapped_files
from omn_kernel.polled import read_file
from omn_kernel.symbols.files import NotFound, open_mapped
from omn_kernel.symbols.mappings import parse_mappings

_ADDRESS = np.dtype([("address", np.uint64)])
_ARGUMENTS = ("di", "si", "dx", "cx", "r8", "r9")
"""The fields of x86's struct pt_regs in which a function of 64-bit code is handed its arguments (System V ABI)."""


@attrs.frozen
class UserFunction:
    """A program on a function, under any of its names: where it is entered, or where it returns."""

    names: tuple[str, ...]
    write: Callable[[KernelAssembly], None]
    is_return: bool = False


@attrs.frozen
class UserPlace:
    """A place of a file by its offset: the number that a program tells it by, and the counter that it turns on.

    `counter` is where in the file the variable stands that the kernel adds one to in each process while it is probed; 0
    for none.
    """

    offset: int
    number: int
    counter: int = 0


class WritesPlace(Protocol):
    """What writes a program for a place."""

    def __call__(self, program: KernelAssembly, *, number: int | None) -> None:
        """Write it."""


@attrs.frozen
class UserPlaces:
    """A program on places of a file. It is written for the number of one, or (None) to read it: `read_place_number`."""

    name: str
    places: tuple[UserPlace, ...]
    write: WritesPlace


UserProgram: TypeAlias = UserFunction | UserPlaces


class Chooses(Protocol):
    """What chooses the programs for a file by its image and by the path that it is mapped by."""

    def __call__(self, image: Image, path: str, /) -> Sequence[UserProgram]:
        """Return them, none for a file that is not to be probed."""


@attrs.frozen
class SameFunctions:
    """The same programs for every file, those first that others rely on."""

    probes: Sequence[UserFunction]

    def __call__(self, image: Image, path: str, /) -> Sequence[UserFunction]:
        """Return them."""
        return self.probes


def read_place_number(program: KernelAssembly, target: Register, context: Register) -> None:
    """Emit what sets a register to the number of the place that a program for several is at (`UserPlaces`).

    `context` is a register that holds what R1 held when the program began. R0 to R5 hold nothing of it after that.
    """
    program.move(R1, context)
    program.call("get_attach_cookie")
    program.move(target, R0)


def read_user_argument(program: KernelAssembly, target: Register, context: Register, position: int) -> None:
    """Emit what sets a register to an argument of the function that is entered, counted from 0.

    `context` is a register that holds what R1 held when the program began.
    """
    is_x86 = program.has_field("pt_regs", "di")
    _read_register(program, target, context, _ARGUMENTS[position] if is_x86 else f"regs[{position}]")


def read_user_result(program: KernelAssembly, target: Register, context: Register) -> None:
    """Emit what sets a register to what the function returns."""
    _read_register(program, target, context, "ax" if program.has_field("pt_regs", "ax") else "regs[0]")


def read_user_stack(program: KernelAssembly, target: Register, context: Register) -> None:
    """Emit what sets a register to where the program's stack stands."""
    _read_register(program, target, context, "sp")


def read_entry_stack(program: KernelAssembly, target: Register, context: Register) -> None:
    """Emit what sets a register, at a function's return, to where the program's stack stood when it was entered.

    On x86 the return has taken its address off the stack.
    """
    read_user_stack(program, target, context)
    if program.has_field("pt_regs", "di"):
        program.compute(target, "-=", _ADDRESS.itemsize)


def read_user_place(program: KernelAssembly, target: Register, context: Register) -> None:
    """Emit what sets a register to where in the program's memory it is probed."""
    _read_register(program, target, context, "ip" if program.has_field("pt_regs", "ip") else "pc")


def read_caller(program: KernelAssembly, target: Register, context: Register) -> None:
    """Emit what sets a register to where the function that is entered returns to; 0 where that cannot be read.

    R0 to R5 hold nothing of the program's after it but the target, which is one of R6 to R9.
    """
    if not program.has_field("pt_regs", "sp") or not program.has_field("pt_regs", "di"):
        _read_register(program, target, context, "regs[30]")
        return
    place = program.reserve(_ADDRESS)
    program.set(place, "address", 0)
    _read_register(program, R3, context, "sp")
    copy_from_user(program, place, R3)
    program.get(target, place, "address")


def _read_register(program: KernelAssembly, target: Register, context: Register, name: str) -> None:
    (field,) = get_fields(program.types, "pt_regs", name)
    program.load(target, context, field.offset, field.size)


class UserFunctions:
    """The probes of one collector. `choose` gives the programs for a file, those first that others rely on.

    `is_multi` says that each file's places are one link (Linux 6.6). `late` counts files that were probed after a
    process had mapped them.
    """

    def __init__(self, programs: RunningPrograms, types: Btf, choose: Chooses, *, is_multi: bool) -> None:
        self._programs = programs
        self._types = types
        self._choose = choose
        self._is_multi = is_multi
        self._held = ExitStack()
        self._seen: set[tuple[int, int]] = set()
        self._looked: dict[int, tuple[int, int]] = {}
        self.files: list[str] = []
        self.late: list[str] = []

    def load(self, target: BoundTarget, *, is_held: bool) -> None:
        """Load the programs for the files that the target maps, or that a program which is held will map."""
        if is_held:
            path = find_program(target.target.value[0])
            for name in iter_mapped_files(path, os.environ) if path is not None else ():
                with suppress(OSError, ElfError):
                    self._probe(File(name), name)
        else:
            self._look_at(handle.pid for handle in target.processes)

    def look(self, processes: Iterable[int]) -> None:
        """Probe what processes map that began, or executed another program, since; what they called before is lost."""
        known = len(self.files)
        self._look_at(processes)
        if len(self.files) > known:
            self._programs.attach()
            self.late += self.files[known:]

    def _look_at(self, processes: Iterable[int]) -> None:
        for pid in processes:
            try:
                status = os.stat(f"/proc/{pid}/exe")
                executed = (status.st_dev, status.st_ino)
                if self._looked.get(pid) == executed:
                    continue
                mappings = parse_mappings(read_file("/", f"/proc/{pid}/maps"))
            except (OSError, ValueError):
                continue
            self._looked[pid] = executed
            for mapping in {one.path: one for one in mappings if one.is_file}.values():
                with suppress(NotFound):
                    self._probe(open_mapped("/", mapping, pid, mappings).file, mapping.path)

    def _probe(self, file: File, name: str) -> None:
        """Probe a file that was not probed yet, where it has one of the functions. Then it is held open."""
        identity = (file.status.st_dev, file.status.st_ino)
        with ExitStack() as unwanted:
            unwanted.callback(file.close)
            if identity in self._seen:
                return
            self._seen.add(identity)
            try:
                image = read_image(file)
                # The arguments of 32-bit code are on its stack.
                chosen = self._choose(image, name) if image.is_64 else ()
                names = {name for one in chosen if isinstance(one, UserFunction) for name in one.names}
                offsets = find_functions(image, names)
            except ElfError:
                return
            if not offsets and not any(isinstance(one, UserPlaces) for one in chosen):
                return
            unwanted.pop_all()
        self._held.callback(file.close)
        for one in chosen:
            if isinstance(one, UserPlaces):
                self._load_places(file.path, one)
            else:
                self._load_function(file.path, one, offsets)
        self.files.append(name)

    def _load_function(self, path: str, probe: UserFunction, offsets: Mapping[str, tuple[int, ...]]) -> None:
        places = sorted({place for name in probe.names for place in offsets.get(name, ())})
        hooks: list[UserProbe | UserProbes] = [UserProbe(path, place, is_return=probe.is_return) for place in places]
        if self._is_multi and places:
            hooks = [UserProbes(path, places, is_return=probe.is_return)]
        for hook in hooks:
            self._load(probe.names[0], probe.write, hook)

    def _load_places(self, path: str, chosen: UserPlaces) -> None:
        if self._is_multi and not any(one.counter for one in chosen.places):
            offsets, numbers = ([one.offset for one in chosen.places], [one.number for one in chosen.places])
            self._load(chosen.name, partial(chosen.write, number=None), UserProbes(path, offsets, numbers))
            return
        for one in chosen.places:
            hook = UserProbe(path, one.offset, counter=one.counter)
            self._load(chosen.name, partial(chosen.write, number=one.number), hook)

    def _load(self, name: str, write: Callable[[KernelAssembly], None], hook: UserProbe | UserProbes) -> None:
        program = KernelAssembly(f"omn_{name}", self._types, has_typed_pointers=False)
        write(program)
        self._programs.load(program, hook)

    def close(self) -> None:
        """Let go of the files."""
        self._held.close()

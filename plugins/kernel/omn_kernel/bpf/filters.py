"""Whose task an event is: programs leave out what is not the target's, so that nothing of it is handed over."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

import attrs
import numpy as np

from omn_core.api import BoundTarget, MachineRefused
from omn_kernel.bpf.assembly import Assembly
from omn_kernel.bpf.followers import Follower
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.reading import KernelAssembly, TaskAssembly
from omn_kernel.bpf.records import RecordedAssembly
from omn_kernel.bpf.registers import R0, R1, R2, Register
from omn_kernel.cgroup import UNIFIED, CgroupPlace, find_hierarchies, is_in_cgroup_namespace
from omn_kernel.mounts import read_mounts

_POINTER = np.dtype([("cgroup", np.uint64)])


class TaskFilter(Protocol):
    """Which tasks are a target's."""

    def keep(self, program: TaskAssembly, task: Register, otherwise: str) -> None:
        """Emit what goes to a label where a task is not the target's. R0 to R5 hold nothing of the program's after it.

        The register stands for the task, and is one of R6 to R9.
        """


@attrs.frozen(repr=False)
class AnyTask:
    """Every task but the idle ones, which wait for nothing and are each cpu's own."""

    def keep(self, program: TaskAssembly, task: Register, otherwise: str) -> None:
        """Emit what leaves out the idle tasks, whose number is 0."""
        program.read_thread(R1, task)
        program.jump_if(R1, "==", 0, otherwise)


@attrs.frozen(repr=False)
class OneThread:
    """One thread, by its number in the first pid namespace."""

    tid: int

    def keep(self, program: TaskAssembly, task: Register, otherwise: str) -> None:
        """Emit the comparison of its number."""
        program.read_thread(R1, task)
        program.jump_if(R1, "!=", self.tid, otherwise)


@attrs.frozen(repr=False)
class OneProcess:
    """The threads of one process, by its number in the first pid namespace."""

    pid: int

    def keep(self, program: TaskAssembly, task: Register, otherwise: str) -> None:
        """Emit the comparison of its number."""
        program.read_process(R1, task)
        program.jump_if(R1, "!=", self.pid, otherwise)


@attrs.frozen(repr=False)
class OnCpus:
    """Every task but the idle ones while it is on one of some cpus: that which runs the program."""

    cpus: tuple[int, ...]

    def keep(self, program: TaskAssembly, task: Register, otherwise: str) -> None:
        """Emit the comparison with each cpu, and with the idle task's number."""
        self.keep_cpu(program, otherwise)
        AnyTask().keep(program, task, otherwise)

    def keep_cpu(self, program: TaskAssembly, otherwise: str) -> None:
        """Emit what goes to a label on another cpu. R0 to R5 hold nothing of the program's after it."""
        here = program.make_label("here")
        program.call("get_smp_processor_id")
        for cpu in self.cpus:
            program.jump_if(R0, "==", cpu, here)
        program.jump(otherwise)
        program.label(here)


@attrs.frozen(repr=False)
class InCgroup:
    """The tasks of a cgroup2 cgroup and of all below it: those whose ancestor at its depth it is."""

    number: int
    depth: int

    def keep(self, program: TaskAssembly, task: Register, otherwise: str) -> None:
        """Emit the comparison, as cgroup_is_descendant makes it. Raises FieldMissing, MachineRefused without types."""
        if not isinstance(program, KernelAssembly):
            raise MachineRefused("records of tracepoints do not tell a cgroup's depth")
        held = program.reserve(_POINTER)
        program.read_field(R1, task, "task_struct", "cgroups.dfl_cgrp")
        program.set(held, "cgroup", R1)
        program.read_field(R1, R1, "cgroup", "level", is_copied=True)
        program.jump_if(R1, "s<", self.depth, otherwise)
        program.get(R1, held, "cgroup")
        # Linux 6.1 keeps pointers to the ancestors where there were their numbers.
        kept = f"ancestors[{self.depth}].kn.id" if program.has_field("cgroup", "ancestors") else None
        program.read_field(R1, R1, "cgroup", kept or f"ancestor_ids[{self.depth}]", is_copied=True)
        program.move(R2, self.number)
        program.jump_if(R1, "!=", R2, otherwise)


class RunsInCgroup:
    """The tasks of a cgroup2 cgroup and of all below it while they run, by a helper: nothing is asked of types.

    Of a task that does not run nobody tells without them whose cgroup it is in.
    """

    def __init__(self, folder: str) -> None:
        self._table = Map(MapType.CGROUP_ARRAY, "cgroup", np.uint32, np.uint32, 1)
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                self._table.update(0, descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            self.close()
            raise MachineRefused(f"{folder}: programs cannot be told of this cgroup: {error.strerror}") from None

    def keep(self, program: TaskAssembly, task: Register, otherwise: str) -> None:
        """Emit the question, of the task that runs. Raises MachineRefused where the register stands for another."""
        if not isinstance(program, RecordedAssembly) or not program.is_current(task):
            raise MachineRefused("records of tracepoints do not tell the cgroup of a task that does not run")
        self.keep_current(program, otherwise)

    def keep_current(self, program: Assembly, otherwise: str) -> None:
        """Emit what goes to a label where the task that runs is elsewhere. R0 to R5 hold nothing after it."""
        program.load_map(R1, self._table)
        program.move(R2, 0)
        program.call("current_task_under_cgroup")
        program.jump_if(R0, "!=", 1, otherwise)

    def close(self) -> None:
        """Let go of the map, and of the cgroup in it."""
        self._table.close()


def _get_unified(place: CgroupPlace) -> str:
    if place.unified is None:
        raise MachineRefused(
            f"cgroup {place.path!r} stands in no cgroup2 hierarchy, by which programs in the kernel tell tasks apart",
            "name a cgroup of cgroup2",
        )
    return place.unified


def open_cgroup_filter(place: CgroupPlace) -> RunsInCgroup:
    """Open what tells the running tasks of a cgroup without the kernel's types, as seen from any cgroup namespace.

    Raises MachineRefused where programs cannot tell it.
    """
    return RunsInCgroup(_get_unified(place))


def find_cgroup_filter(place: CgroupPlace) -> InCgroup:
    """Find by what a cgroup is told. Raises MachineRefused where programs cannot tell it."""
    folder = _get_unified(place)
    mount = find_hierarchies(read_mounts("/"))[UNIFIED]
    if is_in_cgroup_namespace("/"):
        raise MachineRefused(
            "inside a cgroup namespace a cgroup's depth cannot be known, by which programs tell its tasks",
            "run omn outside the container, in the machine's own cgroup namespace",
        )
    below = folder.removeprefix(mount.point)
    depth = sum(1 for part in f"{mount.root}/{below}".split("/") if part)
    return InCgroup(os.stat(folder).st_ino, depth)


_FIRST_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO of <linux/proc_ns.h>: the namespace whose numbers programs in the kernel read."""


def refuse_other_numbers(target: BoundTarget) -> None:
    """Raise MachineRefused for processes whose numbers here are others than those that programs read."""
    if target.processes and os.readlink("/proc/self/ns/pid") != _FIRST_PID_NAMESPACE:
        raise MachineRefused(
            "inside a pid namespace processes have other numbers than the kernel's programs read",
            "run omn outside the container, in the machine's own pid namespace",
        )


def find_filter(
    target: BoundTarget,
    follower: Follower | None,
    find_in_cgroup: Callable[[CgroupPlace], TaskFilter] = find_cgroup_filter,
) -> TaskFilter:
    """Find by what the tasks of a target are told: its processes' by the follower, which every other does without.

    `find_in_cgroup` finds by what a cgroup's are. Raises MachineRefused where programs cannot tell them.
    """
    refuse_other_numbers(target)
    if target.tid is not None:
        return OneThread(target.tid)
    if target.processes and follower is not None:
        return follower
    if target.cpus:
        return OnCpus(target.cpus)
    return find_in_cgroup(target.place) if isinstance(target.place, CgroupPlace) else AnyTask()

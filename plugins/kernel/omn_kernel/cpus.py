"""Cpus as collectors meet them: which are online at a reading, which came and went, and the files that each has."""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence

from omn_core.api import BoundTarget, MachineRefused
from omn_kernel.counters import Accounts, Growth, Misses
from omn_kernel.polled import PolledFile, place, raise_descriptor_limit, restore_descriptor_limit
from omn_kernel.polling import PolledCollector
from omn_kernel.sysfs import parse_number_list, read_cpus

_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO})

FOLDER = "/sys/devices/system/cpu"
"""Where sysfs keeps a folder for each cpu, and which of them are online."""


def get_cpus(target: BoundTarget) -> tuple[int, ...]:
    """Return the cpus that a target names, else all that may be. Raises MachineRefused for one that is offline."""
    online = read_cpus("/", "online")
    if offline := [str(cpu) for cpu in target.cpus if cpu not in online]:
        raise MachineRefused(f"cpu {', '.join(offline)} is offline")
    return tuple(target.cpus) or read_cpus("/", "possible")


class CpuPresence:
    """Which cpus each reading was of. The first reading is the baseline: what comes after it is said.

    `wanted` are the cpus that the target names, none for the machine; one of those that is gone is a reading that gave
    nothing.
    """

    def __init__(self, wanted: Collection[int], misses: Misses) -> None:
        self._wanted = wanted
        self._misses = misses
        self._present: frozenset[int] | None = None
        self._changes: dict[str, None] = {}

    def is_wanted(self, cpu: int) -> bool:
        """Tell whether the target is about a cpu."""
        return not self._wanted or cpu in self._wanted

    def observe(self, present: Collection[int]) -> list[int]:
        """Take note of a reading's cpus, and return those that were in the last one and are gone."""
        before, self._present = self._present, frozenset(present)
        if before is None:
            return []
        gone = sorted(before - self._present)
        for cpu in gone:
            self._changes[f"cpu {cpu} went offline in the window"] = None
        for cpu in sorted(self._present - before):
            self._changes[f"cpu {cpu} came online in the window, and counts from its first reading"] = None
        for cpu in self._wanted:
            if cpu not in self._present:
                self._misses.note(f"cpu {cpu} was offline at a reading")
        return gone

    def facts(self) -> tuple[str, ...]:
        """Say which cpus came and went."""
        return tuple(self._changes)


class CpuFiles:
    """Files of one cpu's folder that hold a number each, opened once; those that this kernel lacks are left out.

    Raises OSError for one that is there and cannot be opened.
    """

    def __init__(self, sysroot: str, cpu: int, names: Sequence[str]) -> None:
        folder = place(sysroot, f"{FOLDER}/cpu{cpu}")
        self._files: dict[str, PolledFile] = {}
        for name in names:
            try:
                self._files[name] = PolledFile(f"{folder}/{name}", size=64)
            except OSError as error:
                if error.errno not in _ABSENT:
                    self.close()
                    raise

    def __bool__(self) -> bool:
        return bool(self._files)

    def read(self) -> dict[str, int]:
        """Read every file. Raises OSError when the cpu went offline and took its files with it."""
        return {name: int(file.read()) for name, file in self._files.items()}

    def close(self) -> None:
        """Let go of the files."""
        for file in self._files.values():
            file.close()


class CpuCounterCollector(PolledCollector[Mapping[int, Mapping[str, int]]], ABC):
    """A collector of counters that sysfs keeps in a folder of each cpu: a subclass says which files, and makes rows.

    A cpu that goes offline has no row from there, and one that comes back counts from its first reading: what the two
    did meanwhile is said and never a spike. `counted` names what the files are, for a refusal.
    """

    counted: str

    def open_files(self, target: BoundTarget) -> None:
        """Open the files of each cpu. Raises MachineRefused where none has any, or one that the target names lacks."""
        self.presence = CpuPresence(target.cpus, self.misses)
        self.accounts: Accounts[int] = Accounts(self.misses, lambda cpu: f"cpu {cpu}")
        self._online = self.open_file(f"{FOLDER}/online")
        self._files: dict[int, CpuFiles] = {}
        self._held.callback(self._close_files)
        found = self._read_first()
        lacking = [cpu for cpu in target.cpus if cpu not in found]
        if lacking:
            raise MachineRefused(f"cpu {', '.join(map(str, lacking))} has no {self.counted}")
        if not found:
            raise MachineRefused(f"no cpu here has {self.counted}")

    def _read_first(self) -> dict[int, dict[str, int]]:
        """Read every cpu once, the limit of open files raised for as many as there are."""
        cpus = [cpu for cpu in parse_number_list(self._online.read()) if self.presence.is_wanted(cpu)]
        soft = raise_descriptor_limit(sum(len(self.list_names(cpu)) for cpu in cpus))
        self._held.callback(restore_descriptor_limit, soft)
        try:
            return self.read()
        except OSError as error:
            raise MachineRefused(
                f"the files of {len(cpus)} cpus cannot be kept open: {error.strerror}",
                "raise the limit of open files (ulimit -n), or name fewer cpus with --cpu",
            ) from None

    @abstractmethod
    def list_names(self, cpu: int) -> Sequence[str]:
        """List the files to read of a cpu, named from its folder."""

    def read(self) -> dict[int, dict[str, int]]:
        """Read each cpu that is online and that the target is about."""
        online = parse_number_list(self._online.read())
        readings = {cpu: self._read_cpu(cpu) for cpu in online if self.presence.is_wanted(cpu)}
        return {cpu: reading for cpu, reading in readings.items() if reading is not None}

    def advance(self, content: Mapping[int, Mapping[str, int]], at_ns: int) -> dict[int, Growth]:
        """Return what each cpu's counters grew by since its last reading."""
        for cpu in self.presence.observe(content):
            self._forget(cpu)
        return self.accounts.advance(content, at_ns)

    def facts(self) -> tuple[str, ...]:
        """Say which cpus came and went."""
        return self.presence.facts()

    def _read_cpu(self, cpu: int) -> dict[str, int] | None:
        """Read a cpu's files, opened anew where it was offline since they were; None where it has none."""
        for _ in range(2):
            files = self._files.get(cpu)
            if files is None:
                files = self._files[cpu] = CpuFiles(self.context.sysroot, cpu, self.list_names(cpu))
            try:
                if files:
                    return files.read()
            except OSError:
                pass  # it went offline, and may be back with files that are others
            self._forget(cpu)
        return None

    def _forget(self, cpu: int) -> None:
        files = self._files.pop(cpu, None)
        if files is not None:
            files.close()

    def _close_files(self) -> None:
        for cpu in list(self._files):
            self._forget(cpu)

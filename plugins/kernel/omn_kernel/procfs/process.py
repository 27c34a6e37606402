"""Reading a process's own files, and telling a process that ended from a read that failed."""

from __future__ import annotations

import os
from collections.abc import Sequence

from omn_core.api import MachineRefused
from omn_kernel.polled import PolledFile, place, read_file
from omn_kernel.privileges import explain, read_privileges
from omn_kernel.procfs.task import TaskStat, find_status_field, parse_stat


class ProcessGone(Exception):
    """The process has ended: it is not there, or is a zombie without what was asked for."""


def find_folder(pid: int, tid: int | None = None) -> str:
    """Return the folder of a process, or of one of its threads."""
    return f"/proc/{pid}" if tid is None else f"/proc/{pid}/task/{tid}"


def read_stat(sysroot: str, pid: int, tid: int | None = None) -> TaskStat:
    """Read the stat file of a process or of one of its threads. Raises ProcessGone where it is not there."""
    try:
        return parse_stat(read_file(sysroot, f"{find_folder(pid, tid)}/stat"))
    except (FileNotFoundError, ProcessLookupError):
        raise ProcessGone(f"{_name(pid, tid)} is not there") from None


def has_ended(sysroot: str, pid: int, tid: int | None = None) -> bool:
    """Tell whether a process, or one of its threads, is gone or a zombie."""
    try:
        stat = read_stat(sysroot, pid, tid)
    except ProcessGone:
        return True
    return stat.process_has_ended if tid is None else stat.has_ended


def _name(pid: int, tid: int | None) -> str:
    return f"process {pid}" if tid is None else f"thread {tid} of process {pid}"


def find_comm(sysroot: str, pid: int, tid: int | None = None) -> bytes | None:
    """Find what a process, or one of its threads, calls itself now: any bytes. None where it can no longer be read."""
    try:
        return read_file(sysroot, f"{find_folder(pid, tid)}/comm").removesuffix(b"\n")
    except OSError:
        return None


def find_parent(sysroot: str, pid: int) -> int | None:
    """Find the process that a process belongs to, 0 for one whose parent is in another pid namespace.

    None where it can no longer be read.
    """
    try:
        return read_stat(sysroot, pid).parent
    except (ProcessGone, OSError):
        return None


def find_process_key(sysroot: str, pid: int) -> str | None:
    """Find what names a process across containers: its pid namespace's inode and its pid inside it.

    From /proc/<pid>/ns/pid and the last number of NSpid in its status. None where the link is closed to this user.
    """
    try:
        link = os.readlink(place(sysroot, f"/proc/{pid}/ns/pid"))
        numbers = find_status_field(read_file(sysroot, f"/proc/{pid}/status"), "NSpid")
    except OSError:
        return None
    inode = link.partition("[")[2].rstrip("]")
    return f"{inode}:{numbers.split()[-1] if numbers else pid}" if inode else None


def list_threads(sysroot: str, pid: int) -> list[int]:
    """List the threads of a process, sorted. Raises ProcessGone where it is not there."""
    try:
        return sorted(int(name) for name in os.listdir(place(sysroot, f"/proc/{pid}/task")))
    except (FileNotFoundError, ProcessLookupError):
        raise ProcessGone(f"process {pid} is not there") from None


def refuse_reading(pid: int, name: str, takes: Sequence[str] = ("sys_ptrace",)) -> MachineRefused:
    """Make the refusal of a file or folder of a process that is closed to this user: what is missing, what mends it.

    `takes` names the capabilities that another user's takes.
    """
    privileges = read_privileges("/")
    missing = [capability for capability in takes if not privileges.has(capability)]
    if missing:
        reason, remedy = explain(missing[0], beside=missing[1:])
        remedy = f"run omn as the owner of the process; {remedy}"
    else:
        held = " and ".join(f"CAP_{capability.upper()}" for capability in takes)
        agrees = "is in effect, and does" if len(takes) == 1 else "are in effect, and do"
        reason, remedy = f"{held} {agrees} not help", "a security module may withhold it"
    return MachineRefused(f"process {pid} does not let this user read its {name}: {reason}", remedy)


class ProcessFile:
    """One file of one process, or of one of its threads, opened when first read and kept.

    `bound_to_memory` says that the kernel ties the open file to the address space it was opened on (smaps,
    smaps_rollup, numa_maps): an execve replaces that one, so the file is opened for every reading. `takes` names the
    capabilities that another user's takes.
    """

    __slots__ = ("_bound_to_memory", "_file", "_many_records", "_path", "_sysroot", "_takes", "pid", "tid")

    def __init__(
        self,
        sysroot: str,
        pid: int,
        name: str,
        *,
        tid: int | None = None,
        many_records: bool = False,
        bound_to_memory: bool = False,
        takes: Sequence[str] = ("sys_ptrace",),
    ) -> None:
        self.pid = pid
        self.tid = tid
        self._sysroot = sysroot
        self._path = place(sysroot, f"{find_folder(pid, tid)}/{name}")
        self._many_records = many_records
        self._bound_to_memory = bound_to_memory
        self._takes = takes
        self._file: PolledFile | None = None

    def read(self) -> bytes:
        """Read the file as it stands.

        A process that runs and answers ESRCH is read once more with the file opened anew: one that executes another
        program answers so for a moment. Raises ProcessGone when the process has ended, MachineRefused when this user
        may not read it, and OSError when a running process's file fails twice.
        """
        try:
            return self._read_once()
        except (FileNotFoundError, ProcessLookupError):
            self.close()
            if has_ended(self._sysroot, self.pid, self.tid):
                raise ProcessGone(f"{_name(self.pid, self.tid)} has ended") from None
        except PermissionError:
            raise refuse_reading(self.pid, self._path.rpartition("/")[2], self._takes) from None
        return self._read_again()

    def _read_again(self) -> bytes:
        try:
            return self._read_once()
        except (FileNotFoundError, ProcessLookupError):
            # It may have ended between the two.
            if has_ended(self._sysroot, self.pid, self.tid):
                raise ProcessGone(f"{_name(self.pid, self.tid)} has ended") from None
            raise

    def _read_once(self) -> bytes:
        file = self._file
        if file is None:
            file = PolledFile(self._path, many_records=self._many_records)
            if not self._bound_to_memory:
                self._file = file
        return file.read()

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

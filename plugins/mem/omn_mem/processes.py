"""Following the processes of a target: one file of each, read together, those that end left out from then on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import attrs
import numpy as np
from omn_kernel.polled import raise_descriptor_limit, restore_descriptor_limit
from omn_kernel.procfs.process import ProcessFile, ProcessGone, find_process_key, read_stat

from omn_core.api import BoundTarget, Column, Losses, MachineRefused, ResolvedRequest, RunContext, TargetGone

Row = TypeVar("Row")


def is_asked(resolved: ResolvedRequest, attribute: str) -> bool:
    """Tell whether an answer can show an attribute that costs a read of its own: by key, filter, emit or raw rows."""
    request = resolved.request
    if attribute in request.keys or (request.filter is not None and attribute in request.filter):
        return True
    return any(emit.attribute == attribute or emit.name == "raw" for emit in resolved.emits)


@attrs.frozen(eq=False)
class Round(Generic[Row]):
    """One reading of every process: the clock before and after, the rows, and whose each is."""

    span: tuple[int, int]
    rows: list[Row]
    files: Sequence[ProcessFile]


class FollowedProcesses(Generic[Row]):
    """One file of every process of a target.

    `parse` makes a row of the file's bytes, None for one that says that the process has no memory any more.
    """

    def __init__(
        self,
        target: BoundTarget,
        context: RunContext,
        name: str,
        parse: Callable[[bytes], Row | None],
        *,
        many_records: bool = False,
        bound_to_memory: bool = False,
    ) -> None:
        self._context = context
        self._parse = parse
        self._pids = [process.pid for process in target.processes] or [target.tid or 0]
        self._tid = target.tid
        self._name = name
        self._options = {"many_records": many_records, "bound_to_memory": bound_to_memory}
        self._check_memory()
        self._descriptor_limit = raise_descriptor_limit(2 * len(self._pids))
        self._files = [self._open(pid, name) for pid in self._pids]
        self._names = [ProcessFile(context.sysroot, pid, "comm", tid=self._tid) for pid in self._pids]
        self._keys = self._make_keys()
        self._failures: dict[str, int] = {}

    def _open(self, pid: int, name: str) -> ProcessFile:
        return ProcessFile(self._context.sysroot, pid, name, tid=self._tid, **self._options)

    def _check_memory(self) -> None:
        """Refuse what has no memory of its own, each with its own sentence."""
        for pid in self._pids:
            try:
                stat = read_stat(self._context.sysroot, pid, self._tid)
            except ProcessGone as gone:
                raise MachineRefused(str(gone)) from None
            if stat.is_kernel_thread:
                raise MachineRefused(
                    f"process {pid} is a kernel thread, which has no memory of its own",
                    "ask for the machine with --system",
                )

    def __len__(self) -> int:
        return len(self._files)

    def check_readable(self) -> None:
        """Read every file once, so that one closed to this user refuses the request before anything runs."""
        for file in self._files:
            try:
                file.read()
            except ProcessGone as gone:
                raise MachineRefused(str(gone)) from None

    def _make_keys(self) -> dict[str, Column]:
        names = self._context.names
        tasks = [file.pid if file.tid is None else file.tid for file in self._files]
        keys = {"task": Column.of(tasks, names)}
        processes = [find_process_key(self._context.sysroot, file.pid) for file in self._files]
        if any(key is not None for key in processes):
            keys["proc"] = Column.of(processes, names)
        return keys

    def read(self) -> Round[Row]:
        """Read every process. Raises TargetGone when the last one has ended.

        A read that failed although its process runs is counted and leaves that process out of this round.
        """
        before = self._context.clock()
        rows: list[Row] = []
        read: list[ProcessFile] = []
        ended: list[ProcessFile] = []
        for file in self._files:
            try:
                row = self._parse(file.read())
            except ProcessGone:
                row = None
            except (OSError, MachineRefused) as error:
                reason = str(error) if isinstance(error, MachineRefused) else f"{self._name}: {error.strerror}"
                self._failures[reason] = self._failures.get(reason, 0) + 1
                continue
            if row is None:
                ended.append(file)
            else:
                rows.append(row)
                read.append(file)
        after = self._context.clock()
        if ended:
            self.forget(ended)
        if not self._files:
            raise TargetGone
        return Round((before, after), rows, read)

    def forget(self, ended: Sequence[ProcessFile]) -> None:
        """Follow some processes no longer."""
        left = set(ended)
        index = [place for place, file in enumerate(self._files) if file not in left]
        for place, file in enumerate(self._files):
            if file in left:
                file.close()
                self._names[place].close()
        self._files = [self._files[place] for place in index]
        self._names = [self._names[place] for place in index]
        self._keys = {name: column.select(np.array(index, np.int64)) for name, column in self._keys.items()}

    def keys_of(self, files: Sequence[ProcessFile]) -> dict[str, Column]:
        """Return the key columns of some of the processes, one row each in the order given; one may come often."""
        if files == self._files:
            return self._keys
        places = {file: place for place, file in enumerate(self._files)}
        index = np.array([places[file] for file in files], np.int64)
        return {name: column.select(index) for name, column in self._keys.items()}

    def read_comms(self, files: Sequence[ProcessFile]) -> list[bytes | None]:
        """Read the names of some of the processes as they call themselves now, None where one ended meanwhile."""
        by_file = dict(zip(self._files, self._names, strict=True))
        return [_read_name(by_file[file]) for file in files]

    def losses(self) -> Losses:
        """Return the failed reads, with what the kernel answered."""
        return Losses(failed_reads=sum(self._failures.values()), reasons=tuple(self._failures))

    def close(self) -> None:
        """Let go of every process."""
        for file in [*self._files, *self._names]:
            file.close()
        restore_descriptor_limit(self._descriptor_limit)


def _read_name(file: ProcessFile) -> bytes | None:
    try:
        return file.read().removesuffix(b"\n")
    except (ProcessGone, OSError):
        return None

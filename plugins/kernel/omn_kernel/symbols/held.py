"""The files that processes map, opened while they are surely those and lent to whoever reads them."""

from __future__ import annotations

import contextlib
import functools
import resource
from collections.abc import Iterator, Sequence

from omn_kernel.symbols.files import NotFound, Opened, find_fault, open_mapped
from omn_kernel.symbols.mappings import Mapping, read_mappings

# What a run may hold open of the files that its processes map, beside everything else that it opens.
_SHARE_OF_FILES = 8
_MOST_HELD = 256


class MappedFiles:
    """Files by what was mapped. One that is not held is opened when it is asked for, if it is still there."""

    def __init__(self, sysroot: str = "/") -> None:
        self._sysroot = sysroot
        self._held: dict[tuple[object, ...], Opened] = {}
        self._most_held = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _SHARE_OF_FILES, _MOST_HELD)

    def hold(self, mapped: Sequence[tuple[int, Mapping]]) -> None:
        """Open the files that processes map now, unread: they may be deleted or replaced before they are asked for.

        So many are held and no more.
        """
        read = functools.cache(functools.partial(read_mappings, self._sysroot))
        for pid, mapping in mapped:
            key = make_key(mapping)
            if mapping.is_file and key not in self._held and len(self._held) < self._most_held:
                with contextlib.suppress(NotFound):
                    self._held[key] = open_mapped(self._sysroot, mapping, pid, read(pid))

    @contextlib.contextmanager
    def lend(self, mapping: Mapping, pid: int | None) -> Iterator[Opened]:
        """Lend the file behind a mapping. `pid` is the process while it lives and still has that memory, else None.

        It is held from then on, if there is room. Raises NotFound as `open_mapped` does, and for a held file that is
        not any more what was mapped.
        """
        key = make_key(mapping)
        held = self._held.get(key)
        if held is not None:
            fault = find_fault(held.file, mapping, is_itself=True)  # it may have been written to since
            if fault is not None:
                raise NotFound(fault)
            yield held
            return
        now = () if pid is None else read_mappings(self._sysroot, pid)
        opened = open_mapped(self._sysroot, mapping, pid, now)
        if len(self._held) < self._most_held:
            self._held[key] = opened
            yield opened
            return
        with opened.file:
            yield opened

    def is_held(self, mapping: Mapping) -> bool:
        """Tell whether the file behind a mapping stays open until the end."""
        return make_key(mapping) in self._held

    def close(self) -> None:
        """Let go of the files that are held open."""
        while self._held:
            self._held.popitem()[1].file.close()


def make_key(mapping: Mapping) -> tuple[object, ...]:
    """Make what tells a file from every other."""
    return mapping.file_path, mapping.device, mapping.inode, mapping.build_id

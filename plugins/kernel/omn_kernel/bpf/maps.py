"""eBPF maps: made, read whole into numpy, and unloaded by closing them. See bpf(2).

A map's key and value are numpy types, whose fields a program names too. Nothing is pinned: a map is gone once its
descriptor and every program that was loaded with it are closed.
"""

from __future__ import annotations

import errno
import os
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from omn_kernel.bpf.descriptors import Descriptor
from omn_kernel.bpf.locked_memory import make_charged
from omn_kernel.bpf.map_types import NO_PREALLOCATION, MapType
from omn_kernel.bpf.refusals import refuse_map
from omn_kernel.bpf.storage_types import KEY_TYPE, VALUE_TYPE, make_storage_types
from omn_kernel.native import calls
from omn_kernel.native._bpf import ffi, lib
from omn_kernel.sysfs import read_cpus

Array = npt.NDArray[Any]
ANY, NO_EXIST, EXIST = range(3)
"""How `Map.update` treats an entry: made or changed, made only, changed only."""

_CHUNK = 4096
_NO_BATCH = frozenset({errno.EINVAL, errno.EOPNOTSUPP, 524})  # ENOTSUPP, which has no name outside the kernel
_WORD = 8
_NAME_BYTES = 15


@attrs.frozen(eq=False, repr=False)
class Entries:
    """Entries of a map in columns: `values[i]` is what stands under `keys[i]`; of a per-cpu map, one of each cpu.

    Per-cpu values have two axes, entries and possible cpus, the latter in their order.
    """

    keys: Array
    values: Array

    def __len__(self) -> int:
        return len(self.keys)


class Map(Descriptor):
    """A map of the kernel's, by its descriptor. Raises MachineRefused where it cannot be made.

    What it holds is lost once no program has it either.

    `key` and `value` are numpy types (a value of a per-cpu map is one cpu's), `entries` how many fit. `name` is what
    bpftool lists it by, 15 letters of it. `inner` is a map like those that a map of maps holds.
    """

    def __init__(
        self,
        kind: MapType,
        name: str,
        key: npt.DTypeLike,
        value: npt.DTypeLike,
        entries: int,
        *,
        flags: tuple[str, ...] = (),
        inner: Map | None = None,
    ) -> None:
        super().__init__()
        self.kind = kind
        self.name = name
        self.key: np.dtype[Any] = np.dtype(key)
        self.value: np.dtype[Any] = np.dtype(value)
        self.entries = entries
        self._has_batch = True
        wanted = [*flags, NO_PREALLOCATION] if kind.is_storage else flags
        bits = sum(calls.constant(flag) or 0 for flag in wanted)
        try:
            # Where a ring buffer finds no room in the limit, rings of perf events have an allowance of their own.
            is_kept = kind is MapType.RINGBUF
            self.descriptor = self._create(bits, inner) if is_kept else make_charged(lambda: self._create(bits, inner))
        except OSError as error:
            raise refuse_map(name, error) from None
        cpus = len(read_cpus("/", "possible")) if kind.is_per_cpu else 0
        size = self.value.itemsize
        # Each cpu's part begins at a multiple of eight bytes.
        self._stride = -size % _WORD + size if cpus else size
        self._shape = (cpus, self._stride) if cpus else (self._stride,)
        self._native = ffi.new("struct omn_map *", (self.descriptor, self.key.itemsize, self._stride * (cpus or 1)))

    def _create(self, flags: int, inner: Map | None) -> int:
        kind = calls.constant(f"BPF_MAP_TYPE_{self.kind.value}")
        if kind is None:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        sizes, listed = (self.key.itemsize, self.value.itemsize), self.name.encode()[:_NAME_BYTES]
        if not self.kind.is_storage:
            held = 0 if inner is None else inner.descriptor
            return calls.create_map(kind, *sizes, self.entries, flags, inner=held, name=listed)
        types = calls.load_btf(make_storage_types(self.value.itemsize))
        try:
            return calls.create_map(
                kind, *sizes, 0, flags, btf=types, key_id=KEY_TYPE, value_id=VALUE_TYPE, name=listed
            )
        finally:
            os.close(types)

    def update(self, key: Any, value: Any, flags: int = ANY) -> None:
        """Set an entry, a per-cpu one to a value of every possible cpu. Raises OSError as bpf(2) does."""
        raw = np.zeros(self._shape, np.uint8)
        self._view(raw)[...] = np.asarray(value, self.value)
        _check(lib.omn_map_update(self._native, _bytes_of(self._key_of(key)), _bytes_of(raw), flags))

    def delete(self, key: Any) -> None:
        """Remove an entry. Raises FileNotFoundError for one that is not there."""
        _check(lib.omn_map_delete(self._native, _bytes_of(self._key_of(key))))

    def find(self, key: Any) -> Any:
        """Find the value under a key, of a per-cpu map that of each possible cpu; None where there is none."""
        found = self.find_each(self._key_of(key))
        return found.values[0] if len(found) else None

    def find_each(self, keys: npt.ArrayLike) -> Entries:
        """Find the entries of some keys, in their order and without those that are not there."""
        wanted = np.ascontiguousarray(np.atleast_1d(np.asarray(keys, self.key)))
        raw = np.empty((len(wanted), *self._shape), np.uint8)
        found = np.zeros(len(wanted), bool)
        _check(lib.omn_map_lookup(self._native, _bytes_of(wanted), len(wanted), _bytes_of(raw), _bytes_of(found)))
        return Entries(wanted[found], self._view(raw)[found])

    def read(self) -> Entries:
        """Read every entry. Of a map that programs write meanwhile, each as it was at some time of the reading."""
        return self._copy(takes=False)

    def take(self) -> Entries:
        """Read every entry and remove it, those of an array that are not zero: they are set to zero.

        What a program adds between the two is lost, so that it is meant for a map that no program writes any more
        (`bpf.drains`).
        """
        if self.kind.is_hash:
            return self._copy(takes=True)
        if self.kind not in (MapType.ARRAY, MapType.PERCPU_ARRAY):
            raise TypeError(f"the entries of {self.name!r} stay where they are")
        entries = self.read()
        is_set = np.ascontiguousarray(entries.values).view(np.uint8).reshape(len(entries), -1).any(axis=1)
        taken = Entries(entries.keys[is_set], entries.values[is_set])
        for key in taken.keys:
            self.update(key, np.zeros((), self.value))
        return taken

    def _copy(self, *, takes: bool) -> Entries:
        if self._has_batch:
            try:
                return self._copy_batches(takes)
            except OSError as error:
                if error.errno not in _NO_BATCH:
                    raise
                # Linux 5.6 has batches of hashes and arrays; later releases those of other types, and some have none.
                self._has_batch = False
        keys, raw = self._make_room(self.entries)
        count = ffi.new("uint32_t *", self.entries)
        _check(lib.omn_map_walk(self._native, takes, _bytes_of(keys), _bytes_of(raw), count))
        return Entries(keys[: count[0]], self._view(raw)[: count[0]])

    def _copy_batches(self, takes: bool) -> Entries:
        room = min(self.entries, _CHUNK)
        places = [ffi.new("uint8_t[]", max(self.key.itemsize, _WORD)) for _ in range(2)]
        origin: Any = ffi.NULL
        parts: list[tuple[Array, Array]] = []
        failed = 0
        while failed != -errno.ENOENT:
            keys, raw = self._make_room(room)
            count = ffi.new("uint32_t *", room)
            failed = lib.omn_map_batch(self._native, takes, origin, places[0], _bytes_of(keys), _bytes_of(raw), count)
            if failed == -errno.ENOSPC:
                room *= 2
                continue
            if failed != -errno.ENOENT:
                _check(failed)
            parts.append((keys[: count[0]], raw[: count[0]]))
            places.reverse()
            origin = places[1]
        keys, raw = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return Entries(keys, self._view(raw))

    def _make_room(self, rows: int) -> tuple[Array, Array]:
        return np.empty(rows, self.key), np.empty((rows, *self._shape), np.uint8)

    def _view(self, raw: Array) -> Array:
        """Return bytes as values, without what fills each cpu's part up."""
        return raw[..., : self.value.itemsize].view(self.value)[..., 0]

    def _key_of(self, key: Any) -> Array:
        return np.array(key, self.key).reshape(1)


def compute_sums(values: Array) -> Array:
    """Add the values of a per-cpu map over its cpus, each field by itself; integers wrap as the kernel's own do."""
    if values.dtype.names is None:
        return np.asarray(values.sum(axis=1, dtype=values.dtype))
    sums = np.empty(len(values), values.dtype)
    for name in values.dtype.names:
        sums[name] = compute_sums(values[name])
    return sums


def _bytes_of(array: Array) -> Any:
    return ffi.from_buffer("uint8_t[]", array)


def _check(failed: int) -> None:
    if failed < 0:
        raise OSError(-failed, os.strerror(-failed))

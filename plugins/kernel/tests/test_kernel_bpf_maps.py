"""eBPF maps made, written and read whole: what a batch says against what each look-up says."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from omn_kernel.bpf import maps
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import EXIST, NO_EXIST, Entries, Map, compute_sums
from omn_kernel.sysfs import read_cpus

from omn_core.api import MachineRefused

KEY = np.dtype([("tgid", np.uint32), ("number", np.uint32)])
ROW = np.dtype([("calls", np.uint64), ("errors", np.uint32)], align=True)
HASHES = [kind for kind in MapType if kind.is_hash]


def make(kind: MapType, entries: int, key: np.dtype[np.void] = KEY) -> Map:
    """Make a map of rows, or skip with the machine's reason."""
    try:
        return Map(kind, "rows", key, ROW, entries)
    except MachineRefused as refused:
        pytest.skip(refused.reason)


def order(entries: Entries) -> Entries:
    places = np.argsort(entries.keys)
    return Entries(entries.keys[places], entries.values[places])


def fill(rows: Map, count: int) -> None:
    for number in range(count):
        value = (number, number % 7)
        cpus = len(read_cpus("/", "possible"))
        of_each = [(number * 10 + cpu, cpu) for cpu in range(cpus)] if rows.kind.is_per_cpu else value
        rows.update((1, number), np.array(of_each, ROW), NO_EXIST)


@pytest.mark.spec("KRN-4")
@pytest.mark.parametrize("kind", HASHES)
def test_a_batch_reads_what_single_look_ups_read(kind: MapType) -> None:
    """Ten thousand entries of every type of hash, per-cpu values included: as many, each once, each the same."""
    with make(kind, 20_000) as rows:
        fill(rows, 10_000)
        everything = rows.read()
        if "LRU" not in kind.value:
            assert len(everything) == 10_000
        assert len(np.unique(everything.keys)) == len(everything) > 9_000
        singly = rows.find_each(everything.keys)
        assert np.array_equal(singly.keys, everything.keys)
        assert np.array_equal(singly.values, everything.values)
        assert rows._has_batch


@pytest.mark.spec("KRN-4")
@pytest.mark.parametrize("kind", HASHES)
def test_entries_are_taken_once(kind: MapType) -> None:
    """What is taken is what was there, and the map is empty then."""
    with make(kind, 20_000) as rows:
        fill(rows, 5_000)
        before, taken = order(rows.read()), order(rows.take())
        assert np.array_equal(before.keys, taken.keys)
        assert np.array_equal(before.values, taken.values)
        assert len(rows.read()) == len(rows.take()) == 0


@pytest.mark.spec("KRN-4")
@pytest.mark.parametrize("kind", [*HASHES, MapType.ARRAY, MapType.PERCPU_ARRAY])
def test_a_kernel_without_batches_is_read_entry_by_entry(kind: MapType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same entries, by the walk that a kernel before 5.6 needs; and the batch is not tried twice."""
    key = KEY if kind.is_hash else np.dtype(np.uint32)
    with make(kind, 600, key) as rows:
        fill(rows, 500) if kind.is_hash else [rows.update(at, np.array((at, at), ROW)) for at in range(600)]
        batch = order(rows.read())

        class WithoutBatch:
            def __getattr__(self, name: str) -> object:
                return getattr(real, name)

            def omn_map_batch(self, *_: object) -> int:
                asked.append(1)
                return -524

        asked: list[int] = []
        real = maps.lib
        monkeypatch.setattr(maps, "lib", WithoutBatch())
        walked = order(rows.read())
        assert np.array_equal(walked.keys, batch.keys)
        assert np.array_equal(walked.values, batch.values)
        if kind.is_hash:
            assert np.array_equal(order(rows.take()).values, batch.values)
            assert len(rows.read()) == 0
        assert len(asked) == 1


def test_more_entries_than_one_batch_holds_are_all_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for a single entry at first, which no bucket of several fits: the room grows, and none is read twice."""
    monkeypatch.setattr(maps, "_CHUNK", 1)
    with make(MapType.HASH, 64) as rows:
        fill(rows, 64)
        assert np.array_equal(np.sort(rows.read().keys["number"]), np.arange(64))


@pytest.mark.spec("KRN-4")
def test_values_of_cpus_are_added_field_by_field() -> None:
    """Exactly, past 32 bits, and for the buckets of a histogram too."""
    cpus = len(read_cpus("/", "possible"))
    row = np.dtype([("total", np.uint64), ("small", np.uint32), ("buckets", np.uint64, 4)])
    with Map(MapType.PERCPU_ARRAY, "histogram", np.uint32, row, 3) as rows:
        for at in range(3):
            rows.update(at, np.array([(2**40 + cpu + at, cpu, [at, cpu, 2**50, 0]) for cpu in range(cpus)], row))
        read = rows.read()
        assert read.values.shape == (3, cpus)
        sums = compute_sums(read.values)
    numbers = sum(range(cpus))
    assert sums["total"].tolist() == [2**40 * cpus + numbers + at * cpus for at in range(3)]
    assert sums["small"].tolist() == [numbers] * 3
    assert sums["buckets"].tolist() == [[at * cpus, numbers, 2**50 * cpus, 0] for at in range(3)]


def test_single_entries_are_made_changed_and_removed() -> None:
    """With the kernel's own answers to what is not there and to what is."""
    with make(MapType.HASH, 2) as rows:
        assert rows.find((1, 2)) is None
        rows.update((1, 2), (5, 6))
        assert rows.find((1, 2)).tolist() == (5, 6)
        with pytest.raises(FileExistsError):
            rows.update((1, 2), (7, 8), NO_EXIST)
        with pytest.raises(FileNotFoundError):
            rows.update((1, 3), (7, 8), EXIST)
        rows.delete((1, 2))
        with pytest.raises(FileNotFoundError):
            rows.delete((1, 2))
        rows.update((1, 2), (5, 6))
        rows.update((1, 3), (5, 6))
        with pytest.raises(OSError, match="Argument list too long") as caught:
            rows.update((1, 4), (5, 6))
        assert caught.value.errno == errno.E2BIG


def test_a_map_of_maps_holds_the_map_that_was_put_there() -> None:
    """Its slot names the inner map by number."""
    with (
        make(MapType.HASH, 4) as inner,
        make(MapType.HASH, 4) as other,
        Map(MapType.ARRAY_OF_MAPS, "slot", np.uint32, np.uint32, 1, inner=inner) as slot,
    ):
        assert slot.find(0) is None
        slot.update(0, inner.descriptor)
        first = int(slot.find(0))
        slot.update(0, other.descriptor)
        assert first > 0
        assert int(slot.find(0)) != first


def test_task_storage_hangs_a_value_on_a_process() -> None:
    """Named by a descriptor of the process, and of a size that no integer has."""
    try:
        storage = Map(MapType.TASK_STORAGE, "since", np.int32, np.dtype([("ns", np.uint64), ("id", np.uint32)]), 0)
    except MachineRefused as refused:
        pytest.skip(refused.reason)
    own = os.pidfd_open(os.getpid())
    with storage:
        assert storage.find(own) is None
        storage.update(own, (2**40, 3))
        assert storage.find(own).tolist() == (2**40, 3)
    os.close(own)


def test_what_cannot_be_taken_out_is_not_asked_to() -> None:
    """A map of maps has them for its programs."""
    with (
        make(MapType.HASH, 4) as inner,
        Map(MapType.ARRAY_OF_MAPS, "slot", np.uint32, np.uint32, 1, inner=inner) as slot,
        pytest.raises(TypeError, match="stay where they are"),
    ):
        slot.take()


@pytest.mark.spec("KRN-4")
@pytest.mark.parametrize("kind", [MapType.ARRAY, MapType.PERCPU_ARRAY])
def test_what_an_array_holds_is_taken_once(kind: MapType) -> None:
    """Its entries stay, those that held something as zeros."""
    with make(kind, 8, np.dtype(np.uint32)) as rows:
        rows.update(3, np.array((4, 5), ROW))
        rows.update(6, np.array((0, 7), ROW))
        taken = rows.take()
        assert taken.keys.tolist() == [3, 6]
        assert taken.values.reshape(2, -1)[:, 0].tolist() == [(4, 5), (0, 7)]
        assert len(rows.read()) == 8
        assert len(rows.take()) == 0


def test_a_map_that_the_kernel_does_not_make_is_refused_by_name() -> None:
    """No entry fits in one of none."""
    with pytest.raises(MachineRefused, match="'rows' cannot be made: Invalid argument"):
        Map(MapType.HASH, "rows", KEY, ROW, 0)


def test_a_closed_map_leaves_no_descriptor() -> None:
    """Of any type, and closing twice is closing once."""
    make(MapType.HASH, 1).close()
    before = sorted(path.name for path in Path("/proc/self/fd").iterdir())
    for kind in (*HASHES, MapType.TASK_STORAGE):
        opened = make(kind, 8, KEY if kind.is_hash else np.dtype(np.int32))
        opened.close()
        opened.close()
    assert sorted(path.name for path in Path("/proc/self/fd").iterdir()) == before

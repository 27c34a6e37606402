"""io.bytes and io.iops of a cgroup, from files as Linux writes them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from omn_kernel.cgroup import CgroupPlace

from omn_core.api import BoundTarget, Target
from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry
from omn_core.testing.harness import Driver, resolve_onto
from omn_core.testing.sysroot import Sysroot

Drive = Callable[..., Driver]
UNIFIED, LEGACY = "/sys/fs/cgroup/app", "/sys/fs/cgroup/blkio/app"
STAT = "{0} rbytes={1} wbytes={2} rios={3} wios={4} dbytes=0 dios=0\n"
BLKIO = "{0} Read {1}\n{0} Write {2}\n{0} Sync 0\n{0} Async 0\n{0} Discard 0\n{0} Total 0\n"


@pytest.fixture
def drive(registry: Registry, catalog: Catalog, sysroot: Sysroot) -> Drive:
    """Make the driver of a source on the cgroup /app of a machine with a disk, a partition-less loop device on it."""
    sysroot.write_block_device("vda", "253:0").write_block_device("loop0", "7:0", backing_file="/image")
    place = CgroupPlace("/app", str(sysroot.path(UNIFIED)), legacy={"blkio": str(sysroot.path(LEGACY))})
    target = BoundTarget(Target("cgroup", "/app"), "cgroup", place=place)

    def make(source: str, backend: str, *keys: str) -> Driver:
        resolved = resolve_onto(catalog.entries[source], backend, target.target, mode="poll", keys=keys)
        return Driver(
            registry.load(registry.collectors[source, backend].factory)(), resolved, target, sysroot=str(sysroot)
        )

    return make


@pytest.mark.spec("IO-1", "REQ-11")
def test_a_device_counts_from_its_line_on(drive: Drive, sysroot: Sysroot) -> None:
    """What is there at the attach is the baseline; a line that comes meanwhile counts whole."""
    sysroot.write(f"{UNIFIED}/io.stat", STAT.format("253:0", 100, 50, 2, 1))
    with drive("io.bytes", "fs:cgroup2:io.stat", "dev") as size, drive("io.iops", "fs:cgroup2:io.stat", "dir") as count:
        sysroot.write(f"{UNIFIED}/io.stat", STAT.format("253:0", 700, 80, 5, 2) + STAT.format("7:0", 9, 0, 1, 0))
        bytes_by_device = {row["dev"]: (row["bytes"], row["read_bytes"], row["write_bytes"]) for row in size.sample()}
        requests = [(row["dev"], row["dir"], row["requests"]) for row in count.sample()]
        assert size.collector.facts() == ("loop0 stands on a file: what it moved may be in the figures of both",)
        assert count.collector.facts() == ("loop0 is left out of the figure: it stands on a file",)
    assert bytes_by_device == {"vda": (630, 600, 30), "loop0": (9, 9, 0)}
    assert requests == [("vda", "read", 3), ("vda", "write", 1), ("vda", "discard", 0)]


@pytest.mark.spec("EMT-2")
def test_a_cgroup_that_did_nothing_is_a_zero_where_that_is_known(drive: Drive, sysroot: Sysroot) -> None:
    """cgroup2 gives a device its line with the first request; version 1 may never, and then nothing is known."""
    sysroot.write(f"{UNIFIED}/io.stat", "")
    with drive("io.bytes", "fs:cgroup2:io.stat") as driver:
        (row,) = driver.sample()
        assert row["bytes"] == 0
        assert driver.collector.facts() == ()
    sysroot.write(f"{LEGACY}/blkio.throttle.io_service_bytes_recursive", "Total 0\n")
    with drive("io.bytes", "fs:cgroup1:blkio") as driver:
        # A row without a measurement, which leaves totals, rates and rankings unknown; no row at all would be a zero.
        (row,) = driver.sample()
        assert row.get("bytes") is None
        assert row["cgroup"] == "/app"
        (fact,) = driver.collector.facts()
        assert fact.endswith("has no device in it: nothing is known, which is no zero")
        sysroot.write(f"{LEGACY}/blkio.throttle.io_service_bytes_recursive", BLKIO.format("253:0", 0, 0))
        (row,) = driver.sample()
        assert (row["dev"], row["bytes"]) == ("vda", 0)
        assert driver.collector.facts() == ()


def test_a_counter_that_steps_back_and_a_device_that_went(drive: Drive, sysroot: Sysroot) -> None:
    """A step back is a failed read; a device that sysfs does not have goes by its number."""
    path = f"{LEGACY}/blkio.throttle.io_serviced_recursive"
    sysroot.write(path, BLKIO.format("253:0", 5, 5) + BLKIO.format("9:9", 1, 1))
    with drive("io.iops", "fs:cgroup1:blkio", "dev") as driver:
        sysroot.write(path, BLKIO.format("253:0", 4, 9) + BLKIO.format("9:9", 3, 1))
        (row,) = driver.sample()
        assert (row["dev"], row["requests"], row["reads"]) == ("9:9", 2, 2)
        assert driver.collector.losses().failed_reads == 1
        assert "of vda stepped back" in driver.collector.losses().reasons[0]


def test_a_backend_that_was_never_seen_says_so(catalog: Catalog) -> None:
    """The machines this was tried on keep the io controller on version 1."""
    for source in ("io.bytes", "io.iops"):
        backend = catalog.entries[source].backend("fs:cgroup2:io.stat")
        assert backend is not None
        assert backend.unseen is not None

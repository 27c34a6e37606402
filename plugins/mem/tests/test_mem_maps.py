"""mem.maps: what each mapping holds."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from omn_core.api import BoundTarget, ProcessHandle, Target, TargetGone
from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry
from omn_core.testing.harness import Driver, bind_processes, resolve_onto
from omn_core.testing.sysroot import Sysroot

MIB = 1 << 20
Drive = Callable[..., Driver]


@pytest.fixture
def drive(registry: Registry, catalog: Catalog) -> Drive:
    """Make the driver of mem.maps."""

    def make(target: BoundTarget, sysroot: object = "/") -> Driver:
        resolved = resolve_onto(catalog.entries["mem.maps"], "fs:proc:smaps", target.target)
        factory = registry.load(registry.collectors["mem.maps", "fs:proc:smaps"].factory)
        return Driver(factory(), resolved, target, sysroot=str(sysroot))

    return make


SMAPS = """00400000-00452000 r-xp 00000000 08:02 173521      /usr/bin/two words
Size:                328 kB
Rss:                 200 kB
Pss:                 100 kB
Private_Clean:         8 kB
Private_Dirty:         4 kB
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd ex
7f0000000000-7f0000021000 rw-p 00000000 00:00 0
Size:                132 kB
Rss:                  44 kB
Pss:                  44 kB
Private_Clean:         0 kB
Private_Dirty:        44 kB
Anonymous:            44 kB
Swap:                 16 kB
VmFlags: rd wr
"""


@pytest.mark.spec("MEM-1", "EVT-5")
def test_each_mapping_is_a_row(sysroot: Sysroot, drive: Drive) -> None:
    """With its name where it has one; anonymous memory without a name has no key, and not an empty one."""
    sysroot.write_process(7)
    sysroot.write("/proc/7/smaps", SMAPS)
    target = BoundTarget(Target("pid", (7,)), "process", (ProcessHandle(7, None, 100),))
    with drive(target, sysroot) as driver:
        file, anonymous = driver.sample()
        assert (file["mapping"], file["rss_bytes"], file["private_bytes"]) == ("/usr/bin/two words", 204800, 12288)
        assert (file["address"], file["permissions"], file["task"]) == (0x400000, "r-xp", 7)
        assert "mapping" not in anonymous
        assert (anonymous["swap_bytes"], anonymous["anonymous_bytes"]) == (16384, 45056)
        assert "huge_bytes" not in anonymous
        sysroot.write("/proc/7/smaps", "")
        with pytest.raises(TargetGone):
            driver.sample()


@pytest.mark.spec("MEM-1")
def test_own_mappings_hold_what_was_written_to_them(drive: Drive) -> None:
    """Eight mebibytes written to one mapping are resident there, and all of them together are the resident set."""
    area = mmap.mmap(-1, 8 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    area.write(b"\1" * (8 * MIB))
    with drive(bind_processes(os.getpid())) as driver:
        rows = driver.sample()
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    assert any(row["anonymous_bytes"] >= 8 * MIB and row["permissions"] == "rw-p" for row in rows)
    assert abs(sum(row["rss_bytes"] for row in rows) - resident) <= 8 * MIB
    assert any(row.get("mapping") == "[stack]" for row in rows)
    area.close()

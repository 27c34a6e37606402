"""The machine that the other tests of a guest stand on."""

from __future__ import annotations

from pathlib import Path


def test_the_guest_is_what_the_cells_take_it_for() -> None:
    """Two cpus, two disks with a file system on one, controllers that are on for this process, and loopback."""
    assert len(list(Path("/sys/devices/system/cpu").glob("cpu[0-9]"))) == 2
    assert "/dev/nvme0n1 /disk ext4 " in Path("/proc/mounts").read_text()
    assert Path("/dev/nvme0n2").is_block_device()
    group = Path("/sys/fs/cgroup", Path("/proc/self/cgroup").read_text().strip().partition("::/")[2])
    assert {"cpu", "io", "memory", "pids"} <= set((group / "cgroup.controllers").read_text().split())
    assert "lo:" in Path("/proc/net/dev").read_text()

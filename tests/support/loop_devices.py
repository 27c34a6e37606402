"""Loop devices over files: block devices of a test's own."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from omn_kernel.procfs.disks import parse_diskstats


class Loop:
    """A loop device over a file, with its name and the path of its node."""

    def __init__(self, image: Path) -> None:
        done = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no loop device can be had here: {done.stderr.strip()}")
        self.path = done.stdout.strip()
        self.name = self.path.removeprefix("/dev/")

    def detach(self) -> None:
        """Take the file off the device."""
        subprocess.run(["losetup", "--detach", self.path], check=True)

    def read_line(self) -> Mapping[str, int]:
        """Return the device's counters, read by hand."""
        return parse_diskstats(Path("/proc/diskstats").read_bytes())[self.name].counters

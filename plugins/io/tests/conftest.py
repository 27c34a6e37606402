"""What the tests of block devices share."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from loop_devices import Loop

MIB = 1 << 20


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Loop]:
    """A loop device of 512 MiB for the length of a test."""
    if os.geteuid() != 0:
        pytest.skip("only root can set a loop device up")
    if shutil.which("losetup") is None:
        pytest.skip("losetup is not installed here")
    image = tmp_path / "image"
    with open(image, "wb") as file:
        file.truncate(512 * MIB)
    device = Loop(image)
    yield device
    device.detach()

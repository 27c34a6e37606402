"""What the page cache writes back, held against a program that knows what it made dirty and syncs it."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from event_backends import RECORDED, needs_records
from omn_io.writeback import Writeback
from omn_kernel.mounts import read_mounts

from omn_core.model.catalog import Catalog
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_machine, resolve_onto

pytestmark = pytest.mark.usefixtures("loads_programs")
PAGES = 37
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def find_kind(path: Path) -> str:
    """Find what kind of file system a file is on."""
    mounts = (one for one in read_mounts("/") if path.is_relative_to(one.point))
    return max(mounts, key=lambda one: len(one.point)).kind


def sync_pages(path: Path, pages: int) -> None:
    """Make pages of a file dirty, and sync its file system."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    os.write(file, bytes(pages * PAGE_BYTES))
    assert ctypes.CDLL(None).syncfs(file) == 0
    os.close(file)


@pytest.mark.spec("IO-1", "SRC-3")
def test_synced_pages_are_told_by_file_and_by_who_asked(catalog: Catalog, tmp_path: Path) -> None:
    """Each page once; a worker writes them, and what the sync asked for is its caller's."""
    if find_kind(tmp_path) in ("tmpfs", "ramfs"):
        pytest.skip(f"{tmp_path} is on {find_kind(tmp_path)}, which writes nothing back")
    resolved = resolve_onto(
        catalog.entries["io.writeback"], "bpf:raw_tp", bind_machine().target, keys=("file", "dev", "task", "comm")
    )
    name = f"written-{os.getpid()}"
    with Driver(Writeback(), resolved, bind_machine()) as driver:
        sync_pages(tmp_path / name, PAGES)
        driver.sample()
    # By its number where the machine wrote more files back than have names.
    ends = (f"/{name}", f":{(tmp_path / name).stat().st_ino}")
    rows = [row for row in driver.rows if row.get("file", "").endswith(ends)]
    assert sum(row["pages"] for row in rows) == PAGES
    assert {row["task"] for row in rows if row["reason"] == "sync"} <= {os.getpid()}
    assert any(row["reason"] == "sync" for row in driver.rows)
    assert all(row["time_ns"] > 0 and row["inodes"] == 1 for row in driver.rows)
    assert driver.collector.losses().is_empty


@needs_records
@pytest.mark.spec("IO-1", "SRC-3", "KRN-3")
def test_records_tell_of_the_same_pages(catalog: Catalog, tmp_path: Path) -> None:
    """By device and reason, with who asked for a sync, as the kernel's types do, less what was passed over."""
    if find_kind(tmp_path) in ("tmpfs", "ramfs"):
        pytest.skip(f"{tmp_path} is on {find_kind(tmp_path)}, which writes nothing back")
    machine, keys = bind_machine(), ("dev", "task", "comm")
    with (
        Driver(
            Writeback(), resolve_onto(catalog.entries["io.writeback"], "bpf:raw_tp", machine.target, keys=keys), machine
        ) as typed,
        Driver(
            Writeback(), resolve_onto(catalog.entries["io.writeback"], RECORDED, machine.target, keys=keys), machine
        ) as single,
    ):
        for number in range(4):
            sync_pages(tmp_path / f"recorded-{number}", PAGES)
        for driver in (typed, single):
            driver.sample()
    skipped = single.collector.losses().skipped
    # Those of the syncs: another task of the machine may write something between the two drivers' ends. A worker may
    # take up by itself what one of them would ask for.
    wanted, found = (
        [row for row in driver.rows if row["reason"] == "sync" and row.get("task") == os.getpid()]
        for driver in (typed, single)
    )
    assert wanted
    assert len(wanted) - skipped <= len(found) <= len(wanted)
    assert sum(row["pages"] for row in typed.rows) >= 4 * PAGES
    assert skipped or [row["pages"] for row in found] == [row["pages"] for row in wanted]
    assert all(row["time_ns"] > 0 and row["inodes"] == 1 for row in found)
    assert {row["comm"] for row in found} <= {row["comm"] for row in wanted}
    assert len({row["dev"] for row in found}) == 1
    assert not {"file", "proc", "ppid"} & single.rows[0].keys()


def test_a_program_is_refused_with_what_serves_it(omn: Command) -> None:
    """Nobody knows who made a page dirty."""
    refused = omn("io.writeback", "-e", "count", "--", "true")
    assert refused.code == 2
    assert "io.process (write_bytes)" in refused.stderr


@pytest.mark.spec("REQ-9")
def test_writeback_without_the_capability_is_refused(omn: Command) -> None:
    """By the machine, with the capability's name."""
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv (util-linux) is not installed here")
    drop = ["setpriv", "--bounding-set=-bpf,-sys_admin", "--inh-caps=-bpf,-sys_admin"]
    asked = [*omn.argv, "io.writeback", "-e", "count", "--system", "-d", "1s"]
    refused = subprocess.run([*drop, *asked], capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "CAP_BPF" in refused.stderr

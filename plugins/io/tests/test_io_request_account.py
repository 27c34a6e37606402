"""Requests that no program sees begin or end, held to what their device counted of them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from event_backends import EACH_BACKEND, TYPED
from loop_devices import Loop
from omn_io.programs.completions import Counted, find_flags
from omn_io.programs.request_times import RequestTimes
from omn_io.programs.requests import RequestPrograms
from omn_io.request_account import Moment, compute_unseen
from omn_io.request_histogram import RequestHistogram
from omn_io.request_names import find_device
from omn_io.request_sums import Bytes
from omn_io.requests import Requests
from omn_kernel.block import BlockDevice
from omn_kernel.bpf.reading import KernelAssembly, TaskAssembly
from omn_kernel.bpf.registers import R1, R6, R7, R8
from omn_kernel.btf.types import Btf
from omn_kernel.procfs.disks import SECTOR_BYTES
from omn_kernel.targets import bind_dev
from type_information import ENUM, INT, Maker

from omn_core.api import BoundTarget, Collector, ProbeContext, RequestError, Target
from omn_core.model.catalog import Catalog
from omn_core.testing.harness import Driver, bind_processes, resolve_onto

pytestmark = pytest.mark.usefixtures("loads_typed_programs")
READS, BLOCK = 60, 4096
# Reads blocks of a device past the page cache, one after the other, and says when each began and ended.
READ = """
import json, mmap, os, sys, time
memory, file = mmap.mmap(-1, 4096), os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
spans = {}
for block in range(int(sys.argv[2])):
    began = time.monotonic_ns()
    os.preadv(file, [memory], block * 4096)
    spans[block] = (began, time.monotonic_ns())
print(json.dumps(spans))
"""
# Reads a device's last block past the page cache for each line that it is sent, and says so.
READ_WHEN_TOLD = """
import mmap, os, sys
memory, file = mmap.mmap(-1, 4096), os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
for _ in sys.stdin:
    os.preadv(file, [memory], os.lseek(file, 0, os.SEEK_END) - 4096)
    print(flush=True)
"""
COLLECTORS: dict[str, Callable[[], Collector]] = {
    "io.latency": Requests,
    "io.bytes": Bytes,
    "io.latency:hist": RequestHistogram,
}


class Watched:
    """A device that a program reads while a collector watches it: what it lost, and how many requests it saw."""

    def __init__(self, loop: Loop, catalog: Catalog, collector: str, backend: str = TYPED) -> None:
        target = bind_dev(Target("dev", loop.name), ProbeContext())
        source, *_ = collector.split(":")
        resolved = resolve_onto(catalog.entries[source], backend, target.target, keys=["dev"])
        made = COLLECTORS[collector]()
        argv = [sys.executable, "-S", "-c", READ, loop.path, str(READS)]
        with Driver(made, resolved, target) as driver:
            told = subprocess.run(argv, check=True, capture_output=True).stdout
            driver.sample()
        self.spans = {int(block): span for block, span in json.loads(told).items()}
        self.rows = driver.rows
        self.losses = made.losses()
        self.fields = made.fields()

    def check(self, lost: int) -> None:
        """Hold what was lost to a number at least, less what the kernel passed over: it may hide some more."""
        assert lost - self.losses.skipped <= self.losses.dropped <= READS
        assert self.losses.skipped or "passed no tracepoint where they began or ended" in " ".join(self.losses.reasons)


def see_nothing(_programs: object, program: TaskAssembly, *_arguments: object) -> None:
    """Stand in for what writes a program."""
    program.leave(0)


@pytest.mark.spec("KRN-5")
@pytest.mark.parametrize("backend", EACH_BACKEND)
@pytest.mark.parametrize("collector", ["io.latency", "io.bytes"])
def test_a_request_that_no_program_sees_end_is_lost(
    loop: Loop, catalog: Catalog, monkeypatch: pytest.MonkeyPatch, collector: str, backend: str
) -> None:
    """As many as the device counted, under its name."""
    monkeypatch.setattr(RequestPrograms, "write_complete", see_nothing)
    watched = Watched(loop, catalog, collector, backend)
    watched.check(READS)
    assert watched.losses.skipped or f"{READS} requests of {loop.name} passed" in watched.losses.reasons[0]


def test_a_histogram_loses_what_it_does_not_see_end(
    loop: Loop, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as the device counted."""
    monkeypatch.setattr(RequestTimes, "write_complete", see_nothing)
    watched = Watched(loop, catalog, "io.latency:hist")
    assert (watched.rows, watched.losses.dropped) == ([], READS)


@pytest.mark.parametrize("collector", ["io.latency", "io.latency:hist"])
def test_a_request_that_no_program_sees_begin_is_lost(
    loop: Loop, catalog: Catalog, monkeypatch: pytest.MonkeyPatch, collector: str
) -> None:
    """It is none that had begun before."""
    for programs in (RequestPrograms, RequestTimes):
        monkeypatch.setattr(programs, "write_issue", see_nothing)
    monkeypatch.setattr(RequestPrograms, "write_insert", see_nothing)
    watched = Watched(loop, catalog, collector)
    assert (watched.rows, watched.losses.dropped, watched.fields["begun_before"]) == ([], READS, 0)


@pytest.mark.spec("REQ-1")
@pytest.mark.parametrize("collector", ["io.latency", "io.latency:hist"])
def test_a_request_in_the_place_of_one_unseen_has_its_own_time(
    loop: Loop, catalog: Catalog, monkeypatch: pytest.MonkeyPatch, collector: str
) -> None:
    """The first half of the reads of a device of four requests ends unseen: what comes after has their places."""
    Path(f"/sys/block/{loop.name}/queue/nr_requests").write_text("4")
    for programs in (RequestPrograms, RequestTimes):
        monkeypatch.setattr(programs, "write_complete", see_second_half(programs.write_complete))
    watched = Watched(loop, catalog, collector)
    watched.check(READS // 2)
    seen = [ended - began for block, (began, ended) in watched.spans.items() if block >= READS // 2]
    assert 0 < sum(row.get("total_ns", row["latency_ns"]) for row in watched.rows) <= sum(seen)


def see_second_half(write: Callable[..., None]) -> Callable[..., None]:
    """Write a program that leaves at once where a request is of the first half of the reads."""

    def write_some(programs: object, program: KernelAssembly, *arguments: object) -> None:
        program.move(R6, R1)
        program.read_argument(R7, R6, 0)
        program.read_field(R8, R7, "request", "__sector")
        program.jump_if(R8, "<", READS // 2 * BLOCK // SECTOR_BYTES, "first")
        program.move(R1, R6)
        write(programs, program, *arguments)
        program.label("first")
        program.leave(0)

    return write_some


def make_moment(completed: int, older: int = 0, *, passed: int = 0, in_flight: int = 0, **made: int) -> Moment:
    """Make a moment in which so many requests had completed, and so many more had when it was read."""
    return Moment(Counted(completed, 0, 0, 0), in_flight, made, Counted(completed + passed, older, 0, 0))


@pytest.mark.parametrize(
    ("opening", "closing", "unseen"),
    [
        (make_moment(0, loop0=100), make_moment(40, loop0=140), 0),
        (make_moment(0, loop0=100), make_moment(37, loop0=140), 3),
        # One that completes while the account is read may be in either part of it.
        (make_moment(0, loop0=100, passed=1), make_moment(37, loop0=140), 2),
        (make_moment(0, loop0=100), make_moment(37, loop0=140, passed=3), 0),
        # Two were under way, of which one was seen to complete: the other may have passed its tracepoint before.
        (make_moment(0, loop0=100, in_flight=2), make_moment(37, 1, loop0=140), 2),
        (make_moment(0, loop0=100, in_flight=2), make_moment(37, 2, loop0=140), 3),
        # A device that came counts from nothing; one that began anew tells nothing, nor does one that is gone.
        (make_moment(0, loop0=100), make_moment(4, loop0=100, vda=5), 1),
        (make_moment(0, loop0=100), make_moment(4, loop0=3), 0),
        (make_moment(0, loop0=100), make_moment(4), 0),
    ],
)
def test_what_a_device_counted_beside_what_was_seen_is_a_least_number(
    opening: Moment, closing: Moment, unseen: int
) -> None:
    """Nothing is made up of what may have been on either side of a reading."""
    assert compute_unseen(opening, closing) == unseen


@pytest.mark.parametrize(
    ("name", "flags"), [(None, (1 << 13, 1 << 4)), ("", (1 << 8, 1 << 1)), ("rqf_flags", (1 << 8, 1 << 1))]
)
def test_what_is_accounted_is_told_by_the_flags_of_each_kernel(name: str | None, flags: tuple[int, int]) -> None:
    """Numbers of their own, an enumeration without a name (Linux 6.11 and 6.12), one with a name."""
    maker = Maker()
    maker.add("int", INT, 4, 1 << 24 | 32)
    if name is not None:
        maker.add(name, ENUM, 4, maker.name("__RQF_FLUSH_SEQ"), 1, maker.name("__RQF_IO_STAT"), 8, count=2)
    assert find_flags(Btf(maker.make())) == flags


def test_unseen_requests_are_a_loss_where_the_target_had_some(
    loop: Loop, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose they were is not known, and the reason says that; on a device that the target left alone they are none."""
    monkeypatch.setattr(RequestPrograms, "write_complete", see_second_half(RequestPrograms.write_complete))
    bystander = [sys.executable, "-S", "-c", READ, loop.path, str(READS)]
    with subprocess.Popen(
        [sys.executable, "-S", "-c", READ_WHEN_TOLD, loop.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        resolved = resolve_onto(catalog.entries["io.latency"], TYPED, bind_processes(child.pid).target, keys=["dev"])
        reasons = []
        for tells in (False, True):
            collector = Requests()
            with Driver(collector, resolved, bind_processes(child.pid)):
                subprocess.run(bystander, check=True, capture_output=True)
                if tells:
                    child.stdin.write(b"\n")
                    child.stdin.flush()
                    child.stdout.readline()
            reasons.append([reason for reason in collector.losses().reasons if loop.name in reason])
        child.stdin.close()
    assert reasons[0] == []
    assert f"requests of {loop.name}, of whatever tasks, passed no tracepoint" in reasons[1][0]


def test_a_device_without_requests_is_refused() -> None:
    """Its driver has none made, and an answer of nothing would be taken for one of a device that did nothing."""
    place = BlockDevice("zram0", "253:0", has_requests=False)
    with pytest.raises(RequestError, match="zram0 makes no requests"):
        find_device(BoundTarget(Target("dev", "zram0"), "device", place=place))

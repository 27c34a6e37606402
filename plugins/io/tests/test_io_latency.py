"""Block requests as programs in the kernel time them, held against programs that time their own direct reads."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from event_backends import EACH_BACKEND, RECORDED, TYPED, needs_records
from loop_devices import Loop
from omn_io.programs import issue_times, request_times
from omn_io.request_histogram import RequestHistogram
from omn_io.request_names import find_device
from omn_kernel.block import BlockDevice, read_block_device

from omn_core.api import BoundTarget, RequestError, Target
from omn_core.model.catalog import Catalog
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, resolve_onto

pytestmark = pytest.mark.usefixtures("loads_typed_programs")
BLOCK = 4096
# Reads blocks of a device past the page cache, first to last, and writes when each began and ended; a child reads as
# many after them. With --- in the place of a device nothing is read.
READ = """
import json, mmap, os, sys, time
device, count, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
memory = mmap.mmap(-1, 4096)
file = os.open(device, os.O_RDONLY | os.O_DIRECT)
def read(begin):
    spans = []
    for block in range(begin, begin + count):
        began = time.monotonic_ns()
        os.preadv(file, [memory], block * 4096)
        spans.append((block, began, time.monotonic_ns()))
    return spans
spans = {os.getpid(): read(0)}
inner, outer = os.pipe()
child = os.fork()
if child == 0:
    os.write(outer, json.dumps(read(count)).encode())
    os._exit(0)
os.close(outer)
spans[child] = json.loads(b"".join(iter(lambda: os.read(inner, 65536), b"")))
os.waitpid(child, 0)
json.dump(spans, open(out, "w"))
"""


@attrs.frozen
class Span:
    """A read as its program saw it."""

    pid: int
    block: int
    began_ns: int
    ended_ns: int


def read_spans(path: Path) -> list[Span]:
    """Return what the program wrote."""
    told = json.loads(path.read_text())
    return [Span(int(pid), *span) for pid, spans in told.items() for span in spans]


def find_value(result: dict[str, Any], emit: str) -> Any:
    """Return what an emit of the one series says."""
    (series,) = result["series"]
    return series["emits"][emit]


def count_missed(losses: dict[str, Any]) -> int:
    """Return how many requests are said to have been missed: what a device counts and no program sees is lost."""
    return int(losses["skipped"] + losses["dropped"])


@pytest.mark.spec("REQ-1", "KRN-5")
@pytest.mark.parametrize("backend", EACH_BACKEND)
def test_each_direct_read_is_one_request_inside_its_own_time(
    loop: Loop, omn: Command, tmp_path: Path, backend: str
) -> None:
    """Of a program and its child, each read is one request of a block at its sector, within the call that made it."""
    out = tmp_path / "spans"
    asked = ["-e", "raw", "--backend", f"force:{backend}", "--format", "json"]
    ran = omn("io.latency", *asked, "--", sys.executable, "-c", READ, loop.path, "60", str(out))
    assert ran.code == 0, ran.stderr
    made = {span.block: span for span in read_spans(out)}
    seen = [row for row in ran.result["raw"] if row["key"]["dev"] == loop.name]
    assert len(made) == 120
    losses = ran.result["losses"]
    blocks = sorted(row["attrs"]["sector"] * 512 // BLOCK for row in seen)
    assert blocks == sorted(made) or len(made) - count_missed(losses) <= len(set(blocks)) == len(blocks)
    for row in seen:
        span = made[row["attrs"]["sector"] * 512 // BLOCK]
        issued_ns = row["ts_ns"] - row["attrs"]["latency_ns"]
        assert span.began_ns <= issued_ns <= row["ts_ns"] <= span.ended_ns
        assert (row["key"]["op"], row["key"]["dir"]) == ("read", "read")
        assert (row["attrs"]["pid"], row["attrs"]["bytes"]) == (span.pid, BLOCK)
        assert row["attrs"].get("status") == (0 if backend == TYPED else None)
    assert losses["failed_reads"] == 0
    assert backend == RECORDED or losses["skipped"] == 0


def test_a_bystander_on_the_same_device_is_not_the_targets(loop: Loop, omn: Command, tmp_path: Path) -> None:
    """Two programs read one device at a time: each is asked about alone, and each request is one's."""
    out = tmp_path / "bystander"
    bystander = [sys.executable, "-c", READ, loop.path, "150", str(out)]
    own = [sys.executable, "-c", READ, loop.path, "80", str(tmp_path / "own")]
    asked = ["-e", "count", "--keys", "dev", "--format", "json"]
    with subprocess.Popen(bystander) as beside:
        ran = omn("io.latency", *asked, "--", *own)
        assert beside.wait() == 0
    assert ran.code == 0, ran.stderr
    counted = {series["key"]["dev"]: series["emits"]["count"]["events"] for series in ran.result["series"]}
    assert 160 - count_missed(ran.result["losses"]) <= counted[loop.name] <= 160
    assert len(read_spans(out)) == 300


@needs_records
def test_a_histogram_of_a_device_is_made_of_records(loop: Loop, omn: Command, tmp_path: Path) -> None:
    """Without the kernel's types each request is handed over, and counted once."""
    out = tmp_path / "spans"
    reading = [sys.executable, "-c", READ, loop.path, "50", str(out)]
    asked = ["--dev", loop.name, "-e", "hist", "--backend", f"force:{RECORDED}", "--format", "json"]
    ran = omn("io.latency", *asked, "--", *reading)
    assert ran.code == 0, ran.stderr
    hist, spans = find_value(ran.result, "hist"), read_spans(out)
    counted = sum(bucket["count"] for bucket in hist["buckets"])
    assert len(spans) - count_missed(ran.result["losses"]) <= counted <= len(spans) == 100
    assert 0 < hist["sum"] <= sum(span.ended_ns - span.began_ns for span in spans)


@pytest.mark.spec("KRN-4")
def test_a_histogram_of_a_device_is_built_in_the_kernel(loop: Loop, omn: Command, tmp_path: Path) -> None:
    """It counts every request once, and what it adds up is less than the reads took and in the buckets that it says."""
    out = tmp_path / "spans"
    reading = [sys.executable, "-c", READ, loop.path, "200", str(out)]
    ran = omn("io.latency", "--dev", loop.name, "-e", "hist", "--format", "json", "--", *reading)
    assert ran.code == 0, ran.stderr
    hist = find_value(ran.result, "hist")
    spans = read_spans(out)
    counted = sum(bucket["count"] for bucket in hist["buckets"])
    assert counted + ran.result["losses"]["dropped"] == len(spans) == 400
    assert ran.result["row_stamp"] == "drain"
    assert 0 < hist["sum"] <= sum(span.ended_ns - span.began_ns for span in spans)
    low = sum(bucket["low"] * bucket["count"] for bucket in hist["buckets"])
    high = sum(bucket["high"] * bucket["count"] for bucket in hist["buckets"])
    assert low <= hist["sum"] < high


@pytest.mark.spec("KRN-4")
def test_a_histogram_is_fios_own_bucket_by_bucket(loop: Loop, omn: Command, tmp_path: Path) -> None:
    """As many requests as fio made, and none longer than fio saw it: up to each bound at least as many are shorter.

    What fio has besides is the way to the device and back: the quickest quarter is in its bucket or the one below.
    """
    if shutil.which("fio") is None:
        pytest.skip("fio is not installed here")
    # One request for each of fio's calls: the device takes them whole.
    Path(f"/sys/block/{loop.name}/queue/max_sectors_kb").write_text("512")
    out = tmp_path / "fio.json"
    job = ["--name=job", f"--filename={loop.path}", "--rw=read", "--bs=512k", "--size=64m", "--direct=1"]
    fio = ["fio", *job, "--ioengine=psync", "--invalidate=0", "--output-format=json+", f"--output={out}"]
    ran = omn("io.latency", "--dev", loop.name, "-e", "hist", "--format", "json", "--", *fio)
    assert ran.code == 0, ran.stderr
    buckets = [(one["high"], one["count"]) for one in find_value(ran.result, "hist")["buckets"]]
    (told,) = json.loads(out.read_text())["jobs"]
    own = {int(ns): count for ns, count in told["read"]["clat_ns"]["bins"].items()}
    made = sum(own.values())
    lost = ran.result["losses"]["dropped"]
    assert sum(count for _, count in buckets) + lost == made == 128

    def count_below(bound: float) -> int:
        # A bin of fio's is called by its middle, and is a sixty-fourth wide.
        return sum(count for ns, count in own.items() if ns * (1 + 1 / 64) < bound)

    seen = 0
    for high, count in buckets:
        seen += count
        assert seen + lost >= count_below(high), (high, buckets, own)
    quarter = next(high for high, _ in buckets if sum(count for bound, count in buckets if bound <= high) >= made / 4)
    assert count_below(quarter * 2 * (1 + 1 / 32)) >= made / 4


# Eight threads read 50 blocks each of a device, so that many requests are under way at a time.
CROWD = """
import mmap, os, sys, threading
def read(device, begin):
    memory, file = mmap.mmap(-1, 4096), os.open(device, os.O_RDONLY | os.O_DIRECT)
    for block in range(begin, begin + 50): os.preadv(file, [memory], block * 4096)
threads = [threading.Thread(target=read, args=(sys.argv[1], 50 * at)) for at in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


class Crowd:
    """A histogram of a device that a crowd reads: how many requests it has, and what it lost."""

    def __init__(self, loop: Loop, catalog: Catalog) -> None:
        target = BoundTarget(Target("dev", loop.name), "device", place=read_block_device("/", loop.name))
        resolved = resolve_onto(catalog.entries["io.latency"], "bpf:raw_tp", target.target, keys=["dev"])
        self.histogram = RequestHistogram()
        with Driver(self.histogram, resolved, target):
            self.prepare()
            subprocess.run([sys.executable, "-S", "-c", CROWD, loop.path], check=True)
            batch = self.histogram.sample(0)
        self.requests = 0 if batch.weight is None else int(batch.weight.sum())
        self.losses = self.histogram.losses()

    def prepare(self) -> None:
        """Do what is to be done before the device is read."""


def test_requests_whose_place_is_anothers_are_timed_too(
    loop: Loop, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one place for all that are under way, every request of a crowd is counted once."""
    monkeypatch.setattr(issue_times, "SLOTS", 1)
    crowd = Crowd(loop, catalog)
    assert crowd.requests + crowd.losses.dropped == 400
    assert all("passed no tracepoint" in reason for reason in crowd.losses.reasons)


def test_requests_of_a_device_without_a_row_are_lost(
    loop: Loop, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where each cpu's one row is another device's, none is in the answer and each is counted as lost."""

    class Taken(Crowd):
        def prepare(self) -> None:
            row = np.zeros((), request_times.DEVICE)
            row["device"] = 1
            self.histogram.rows.rows.update(0, row)

    monkeypatch.setattr(request_times, "DEVICES", 1)
    monkeypatch.setattr(RequestHistogram, "entries", 1)
    crowd = Taken(loop, catalog)
    assert (crowd.requests, crowd.losses.dropped) == (0, 400)
    assert "found no room among" in " ".join(crowd.losses.reasons)


@pytest.mark.spec("REQ-7")
def test_a_filter_takes_the_requests_one_by_one(loop: Loop, omn: Command, tmp_path: Path) -> None:
    """What a program cannot compare in the kernel is compared after it, and what it left out is counted."""
    reading = [sys.executable, "-c", READ, loop.path, "50", str(tmp_path / "spans")]
    asked = ["--dev", loop.name, "-e", "hist", "--filter", "bytes < 4096", "--format", "json"]
    ran = omn("io.latency", *asked, "--", *reading)
    assert ran.code == 0, ran.stderr
    left_out = ran.result["filter"]
    assert (left_out["kept"], left_out["dropped"] + ran.result["losses"]["dropped"]) == (0, 100)


@pytest.mark.spec("SRC-3")
def test_what_a_program_syncs_is_its_own_to_the_byte(loop: Loop, omn: Command) -> None:
    """Through the page cache: the task that waits for its writes inserts them, whoever serves the queue."""
    script = (
        f"import os; file = os.open({loop.path!r}, os.O_WRONLY); os.pwrite(file, bytes(1 << 20), 0); os.fsync(file)"
    )
    asked = ["-e", "summary", "--value", "bytes", "--keys", "dev,op", "--format", "json"]
    ran = omn("io.latency", *asked, "--", sys.executable, "-c", script)
    assert ran.code == 0, ran.stderr
    written = {tuple(series["key"].values()): series["emits"]["summary"] for series in ran.result["series"]}
    assert written[loop.name, "write"]["total"] == 1 << 20


def test_a_partition_is_refused_with_its_device() -> None:
    """Requests are made to whole devices."""
    place = BlockDevice("vda1", "254:1", whole="vda")
    with pytest.raises(RequestError, match="vda1 is a partition"):
        find_device(BoundTarget(Target("dev", "vda1"), "device", place=place))


@pytest.mark.spec("REQ-9")
def test_without_the_capability_it_is_the_machines_refusal(omn: Command) -> None:
    """It names the capability, and nothing ran."""
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv (util-linux) is not installed here")
    drop = ["setpriv", "--bounding-set=-bpf,-sys_admin", "--inh-caps=-bpf,-sys_admin"]
    asked = [*omn.argv, "io.latency", "-e", "summary", "--system", "-d", "1s"]
    refused = subprocess.run([*drop, *asked], capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "CAP_BPF" in refused.stderr
    assert refused.stderr.rstrip().endswith("omn: this machine refused the request; nothing ran")


def test_a_device_that_is_none_is_refused(omn: Command) -> None:
    """It is the machine's, by name."""
    refused = omn("io.latency", "--dev", "nosuch0", "-e", "summary", "-d", "1s")
    assert refused.code == 1
    assert "nosuch0" in refused.stderr

"""A program with all that it starts, end to end: what each process did is in the figure, and once."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omn_core.testing.stepped import Running, Workload, make_workload
from omn_core.testing.workloads import share_bytes

MIB = 1 << 20

FIFTY = """
import os, resource, sys, time
total_us = 0
for number in range(50):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        end_ns = time.process_time_ns() + 4_000_000
        while time.process_time_ns() < end_ns:
            pass
        used = resource.getrusage(resource.RUSAGE_SELF)
        os.write(writing, b"%d" % round((used.ru_utime + used.ru_stime) * 1e6))
        os._exit(0)
    os.close(writing)
    total_us += int(os.read(reading, 100))
    os.close(reading)
    os.waitpid(child, 0)
with open(sys.argv[1], "w") as file:
    file.write(str(total_us))
"""


@pytest.mark.spec("KRN-5", "CST-3", "BEN-1")
def test_fifty_short_children_are_in_the_cpu_of_their_program(omn: Any, tmp_path: Path) -> None:
    """Most come and end between two readings: the whole is the kernel's account, and no less than they say of it."""
    told = tmp_path / "told"
    ran = omn(
        *("cpu.util", "-e", "raw", "--interval", "50ms", "--format", "json"),
        *("--", sys.executable, "-S", "-c", FIFTY, str(told)),
    )
    assert ran.code == 0, ran.stderr
    spent_ns = sum(row["attrs"]["oncpu_ns"] for row in ran.result["raw"])
    assert spent_ns >= int(told.read_text()) * 1000 >= 50 * 4_000_000
    # Both are the account that comes with the program's reaping, which is of whole microseconds.
    assert spent_ns == pytest.approx(ran.document["program"]["cpu_ns"], abs=1_000_000)
    assert ran.document["program"]["own_cpu_ns"] < spent_ns - 50 * 3_000_000
    assert ran.result["losses"]["failed_reads"] == 0


LEVELS = """
directory() {
    sh -c 'for file in 1 2 3 4; do sh -c "head -c 1000 /dev/zero > /dev/null" & done; wait'
}
directory & directory; wait; directory
"""


@pytest.mark.spec("KRN-5", "IO-1", "BEN-1")
@pytest.mark.parametrize("how", [("-m", "count", "-e", "count"), ("-m", "poll", "-e", "rate", "--interval", "5ms")])
def test_bytes_that_a_tree_of_three_levels_wrote_are_counted_once(omn: Any, how: tuple[str, ...]) -> None:
    """Twelve writers of 1000 bytes, side by side under shells under a shell; the shells themselves write nothing."""
    ran = omn("io.process", *how, "--value", "wchar", "--format", "json", "--", "sh", "-c", LEVELS)
    assert ran.code == 0, ran.stderr
    (emit,) = ran.result["series"][0]["emits"].values()
    assert emit["value" if "count" in how else "total"] == 12_000
    assert ran.result["losses"]["failed_reads"] == 0


DAEMON = """
import os
null = os.open("/dev/null", os.O_WRONLY)
reading, writing = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        os.setsid()
        os.write(null, b"x" * 70_000)
        os._exit(0)
    os._exit(0)
os.close(writing)
os.wait()
assert os.read(reading, 1) == b""
"""


@pytest.mark.spec("KRN-5", "CST-3", "RUN-5")
def test_what_a_daemon_did_whom_omn_adopted_is_in_the_figure(omn: Any) -> None:
    """It became an orphan, wrote and ended between two readings: omn, its new parent, keeps it until it was read."""
    program = (sys.executable, "-S", "-c", DAEMON)
    ran = omn("io.process", "-m", "count", "-e", "count", "--value", "wchar", "--format", "json", "--", *program)
    assert ran.code == 0, ran.stderr
    assert ran.result["series"][0]["emits"]["count"]["value"] == 70_000
    assert ran.result["losses"]["failed_reads"] == 0


@pytest.mark.spec("KRN-5", "MEM-1")
def test_memory_that_two_processes_share_counts_as_often_as_its_source_says(
    omn: Any, workload: Callable[[Workload], Running]
) -> None:
    """100 MiB that a child shares with its parent: twice in the resident sets, once in the proportional ones."""
    program = workload(share_bytes(100 * MIB))
    program.wait("shared")
    found = {}
    for source, value in (("mem.rss", "rss_bytes"), ("mem.pss", "pss_bytes"), ("mem.uss", "uss_bytes")):
        ran = omn(source, "-m", "snapshot", "-e", "raw", "--pid", str(program.pid), "--format", "json")
        assert ran.code == 0, ran.stderr
        (row,) = ran.result["raw"]
        found[source] = row["attrs"][value]
        assert ran.result["fields"]["processes_started"] == 1
        assert any("of the process and the 1 that it started" in fact for fact in ran.result["facts"])
    assert 200 * MIB <= found["mem.rss"] <= 240 * MIB
    assert 100 * MIB <= found["mem.pss"] <= 120 * MIB
    assert found["mem.uss"] <= 20 * MIB


NAMED = make_workload(
    "two children of one name, one of another",
    """
alive, held = os.pipe()
ready, told = os.pipe()
for name in (b"worker", b"worker", b"other"):
    if os.fork() == 0:
        os.close(held)
        with open("/proc/self/comm", "wb") as file:
            file.write(name)
        os.write(told, b"x")
        os.read(alive, 1)
        os._exit(0)
for _ in range(3):
    os.read(ready, 1)
step("named")
""",
)


@pytest.mark.spec("KRN-5", "EVT-2")
def test_processes_of_one_name_are_one_series_and_each_has_one_by_task(
    omn: Any, workload: Callable[[Workload], Running]
) -> None:
    """What a key does not tell apart is added up, so that no series mixes the levels of several processes."""
    program = workload(NAMED)
    program.wait("named")
    ask = ("proc.fd", "-m", "poll", "-e", "summary", "-d", "20ms", "--pid", str(program.pid), "--format", "json")
    whole, by_name, by_task = (omn(*ask, *keys).result for keys in ((), ("--keys", "comm"), ("--keys", "task")))
    assert len(by_task["series"]) == 4
    counted = {series["key"]["comm"]: series["emits"]["summary"]["last"] for series in by_name["series"]}
    assert counted["worker"] == 2 * counted["other"]
    assert whole["series"][0]["emits"]["summary"]["last"] == sum(counted.values())
    assert not any("mixed" in fact for result in (whole, by_name, by_task) for fact in result["facts"])

"""Memory sources end to end, against programs that know what they hold and against the kernel's own accounts."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omn_core.testing.stepped import Running, Workload
from omn_core.testing.workloads import rename, share_bytes, touch_bytes, touch_pages

MIB = 1 << 20
PAGE = resource.getpagesize()


def read_statm(pid: int) -> int:
    """The kernel's own resident set, in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


def read_rollup(pid: int) -> dict[str, int]:
    """The kernel's own sums of every mapping, in bytes."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}


@pytest.mark.spec("MEM-1", "BEN-1")
def test_a_program_that_touches_200_mib_is_measured_so(omn: Any, workload: Callable[[Workload], Running]) -> None:
    """The resident set is the bare program's and 200 MiB, within 2 % and 1 MiB, and equals statm read beside it."""
    running = workload(touch_bytes(200 * MIB))
    running.wait("ready")
    bare = read_statm(running.pid)
    running.release()
    running.wait("touched")
    beside = read_statm(running.pid)
    ran = omn(
        "mem.rss",
        "--pid",
        str(running.pid),
        "--interval",
        "20ms",
        "-d",
        "200ms",
        "-e",
        "summary",
        "-e",
        "raw",
        "--format",
        "json",
    )
    assert ran.code == 0, ran.stderr
    summary = ran.result["series"][0]["emits"]["summary"]
    assert abs(summary["max"] - bare - 200 * MIB) <= 0.02 * 200 * MIB + MIB
    assert {event["attrs"]["rss_bytes"] for event in ran.result["raw"]} == {beside}
    assert summary["count"] == ran.result["events_seen"] == len(ran.result["raw"]) >= 5
    assert "total" not in summary


@pytest.mark.spec("MEM-1", "RUN-2")
def test_a_launched_program_is_measured_from_its_own_start(omn: Any) -> None:
    """A launched program's readings are its own, never the launcher's before its exec; its end is no loss."""
    program = "import mmap, time; area = mmap.mmap(-1, 200 << 20); area.write(bytes(200 << 20)); time.sleep(0.3)"
    ran = omn(
        "mem.rss",
        "--interval",
        "10ms",
        "-e",
        "summary",
        "-e",
        "timeline",
        "--format",
        "json",
        "--",
        sys.executable,
        "-c",
        program,
    )
    assert ran.code == 0, ran.stderr
    emits = ran.result["series"][0]["emits"]
    assert 200 * MIB <= emits["summary"]["max"] <= 200 * MIB * 1.02 + 26 * MIB
    assert emits["timeline"]["points"][0][1] < 40 * MIB
    assert ran.document["program"]["exit"] == {"code": 0}
    assert ran.result["losses"]["failed_reads"] == 0
    assert emits["summary"]["lower_bound"] is False


@pytest.mark.spec("MEM-1", "REQ-10")
@pytest.mark.parametrize(("source", "field"), [("mem.pss", "Pss"), ("mem.uss", "Private")])
def test_two_processes_that_share_100_mib_split_it(
    omn: Any, workload: Callable[[Workload], Running], source: str, field: str
) -> None:
    """Each one's proportional set holds half of what they share, its unique set none of it; both equal the rollup."""
    running = workload(share_bytes(100 * MIB))
    child = running.wait("shared")["child"]
    pids = (running.pid, child)
    ran = omn(
        source,
        "--pid",
        f"{running.pid},{child}",
        "--keys",
        "task",
        "--interval",
        "50ms",
        "-d",
        "200ms",
        "-e",
        "summary",
        "--format",
        "json",
    )
    assert ran.code == 0, ran.stderr
    measured = {series["key"]["task"]: series["emits"]["summary"] for series in ran.result["series"]}
    assert set(measured) == set(pids)
    for pid in pids:
        rollup = read_rollup(pid)
        kernel = rollup["Pss"] if field == "Pss" else rollup["Private_Clean"] + rollup["Private_Dirty"]
        assert abs(measured[pid]["last"] - kernel) <= MIB
        shared = measured[pid]["last"] - (rollup["Private_Clean"] + rollup["Private_Dirty"])
        if field == "Pss":
            assert 49 * MIB <= shared <= 56 * MIB
        else:
            assert measured[pid]["last"] < 20 * MIB


@pytest.mark.spec("MEM-1", "SRC-1")
def test_fifty_thousand_fresh_pages_are_fifty_thousand_faults(
    omn: Any, workload: Callable[[Workload], Running]
) -> None:
    """The faults of a window around the touching are what getrusage counted inside it, and a few of the step's own."""
    running = workload(touch_pages(50_000))
    running.wait("ready")
    arguments = ["mem.faults", "-m", "count", "-e", "count", "--pid", str(running.pid), "-d", "60s", "--format", "json"]
    with subprocess.Popen(
        [*omn.argv, *arguments], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=omn.environment()
    ) as measuring:
        wait_until_attached(measuring, running.pid)
        running.release()
        counted = running.wait("touched")["minflt"]
        measuring.send_signal(signal.SIGINT)
        output, _ = measuring.communicate(timeout=60)
    document = json.loads(output)
    value = document["results"][0]["series"][0]["emits"]["count"]["value"]
    assert counted >= 50_000
    assert counted <= value <= counted + 500
    assert document["results"][0]["unit"] == "count"


def wait_until_attached(measuring: subprocess.Popen[bytes], target: int) -> None:
    """Wait until a measuring process holds a pidfd of the target and sleeps: its baseline is read by then."""
    folder = f"/proc/{measuring.pid}"
    while measuring.poll() is None:
        infos = []
        for descriptor in os.listdir(f"{folder}/fdinfo"):
            try:
                infos.append(Path(f"{folder}/fdinfo/{descriptor}").read_text())
            except OSError:
                continue
        held = any(f"Pid:\t{target}\n" in info for info in infos)
        state = Path(f"{folder}/stat").read_text().rpartition(")")[2].split()[0]
        if held and state == "S" and "poll" in Path(f"{folder}/wchan").read_text():
            return
        os.sched_yield()
    raise AssertionError(f"omn ended with {measuring.returncode} before it was attached")


@pytest.mark.spec("MEM-1")
def test_a_cgroup_filled_to_a_known_size_is_charged_so(
    omn: Any, make_cgroup: Callable[[str], Path], workload: Callable[[Workload], Running]
) -> None:
    """A program inside a memory cgroup (version 1 here) is charged what it touches there, as the kernel's file says."""
    group = make_cgroup("memory")
    running = workload(touch_bytes(64 * MIB))
    running.wait("ready")
    (group / "cgroup.procs").write_text(str(running.pid))
    running.release()
    running.wait("touched")
    kernel = int((group / "memory.usage_in_bytes").read_text())
    ran = omn(
        "mem.cgroup", "--cgroup", str(group), "--interval", "20ms", "-d", "100ms", "-e", "summary", "--format", "json"
    )
    assert ran.code == 0, ran.stderr
    assert ran.result["scope"] == "cgroup"
    assert abs(ran.result["series"][0]["emits"]["summary"]["last"] - kernel) <= MIB
    assert ran.result["series"][0]["emits"]["summary"]["last"] >= 64 * MIB


@pytest.mark.spec("RUN-7")
def test_a_cgroup_removed_in_mid_run_ends_the_request(omn: Any, make_cgroup: Callable[[str], Path]) -> None:
    """A cgroup that goes is the end of the request, said, and no loss."""
    group = make_cgroup("memory")
    program = f"import os, time; time.sleep(0.1); os.rmdir({str(group)!r}); time.sleep(0.3); os.mkdir({str(group)!r})"
    ran = omn(
        "mem.cgroup",
        "--cgroup",
        str(group),
        "--interval",
        "20ms",
        "-e",
        "summary",
        "--format",
        "json",
        "--",
        sys.executable,
        "-c",
        program,
    )
    assert ran.code == 0, ran.stderr
    assert ran.result["stopped_because"] is not None
    assert ran.result["losses"]["failed_reads"] == 0
    assert ran.result["window"]["closed_ns"] < ran.document["window"]["closed_ns"]


ODD_NAMES = [b") R 1 (", b"a\nb", b"\x1b[31mred\x1b[0m", b"\xff\xfe\x80", b"'\"\\,;:", b"   "]


@pytest.mark.spec("FMT-2", "EVT-1")
@pytest.mark.parametrize("name", ODD_NAMES)
@pytest.mark.parametrize("form", ["text", "json", "yaml", "toml", "ndjson"])
def test_a_process_of_an_odd_name_breaks_nothing(
    omn: Any, workload: Callable[[Workload], Running], name: bytes, form: str
) -> None:
    """The right process is measured whatever it calls itself, and no byte of its name reaches a terminal raw."""
    running = workload(rename(name))
    running.wait("named")
    ran = omn(
        "mem.rss",
        "--pid",
        str(running.pid),
        "--keys",
        "comm",
        "--interval",
        "20ms",
        "-d",
        "60ms",
        "-e",
        "summary",
        "--format",
        form,
    )
    assert ran.code == 0, ran.stderr
    ran.stdout.decode("utf-8")
    assert b"\x1b" not in ran.stdout
    if form == "json":
        (series,) = ran.result["series"]
        assert abs(series["emits"]["summary"]["last"] - read_statm(running.pid)) <= MIB


@pytest.mark.spec("MEM-1")
def test_the_machines_memory_is_the_kernels(omn: Any) -> None:
    """The machine's total is MemTotal, and what is used is total less available, as free(1) has it."""
    ran = omn("mem.meminfo", "--system", "--interval", "50ms", "-d", "100ms", "-e", "raw", "--format", "json")
    assert ran.code == 0, ran.stderr
    lines = Path("/proc/meminfo").read_text().splitlines()
    kernel = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}
    for event in ran.result["raw"]:
        attributes = event["attrs"]
        assert attributes["total_bytes"] == kernel["MemTotal"]
        assert attributes["used_bytes"] == attributes["total_bytes"] - attributes["available_bytes"]
        assert abs(attributes["available_bytes"] - kernel["MemAvailable"]) <= 256 * MIB

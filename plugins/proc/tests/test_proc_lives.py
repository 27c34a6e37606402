"""proc.exec, proc.exit and proc.fork through each of their mechanisms, held against programs of known lives."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import attrs
import pytest
from omn_kernel.privileges import read_privileges
from omn_kernel.procfs.machine import find_stat_counter
from omn_proc import execs, lives, traced
from omn_proc.connector import Connector
from omn_proc.lives import Forks, parse_span
from omn_proc.probes import probe_process_events

from omn_core.api import BoundTarget, Collector, EmitSpec, MachineRefused, Need, ProbeContext, State
from omn_core.model.catalog import Catalog
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_machine, bind_processes, resolve_onto

_TOLD = probe_process_events(Need("proc_events", "proc_events"), ProbeContext(None))
needs_events = pytest.mark.skipif(_TOLD.state is not State.AVAILABLE, reason=_TOLD.reason or "")

TOLD, SEEN = "netlink:proc", "bpf:raw_tp"
COLLECTORS: dict[tuple[str, str], type[Collector]] = {
    ("proc.exec", TOLD): lives.Execs,
    ("proc.exit", TOLD): lives.Exits,
    ("proc.fork", TOLD): lives.Forks,
    ("proc.exec", SEEN): execs.Execs,
    ("proc.exit", SEEN): traced.Exits,
    ("proc.fork", SEEN): traced.Forks,
}


@pytest.fixture(params=[TOLD, SEEN])
def backend(request: pytest.FixtureRequest) -> str:
    """Each mechanism that tells of processes one by one."""
    name = str(request.param)
    if name == TOLD and _TOLD.state is not State.AVAILABLE:
        pytest.skip(_TOLD.reason or "")
    if name == SEEN and not read_privileges("/").has("bpf"):
        pytest.skip("this process is without CAP_BPF")
    return name


def drive(catalog: Catalog, source: str, target: BoundTarget, *keys: str, backend: str = TOLD) -> Driver:
    resolved = resolve_onto(catalog.entries[source], backend, target.target, mode="trace", keys=keys)
    return Driver(COLLECTORS[source, backend](), attrs.evolve(resolved, emits=(EmitSpec("raw"),)), target)


@pytest.mark.spec("PRC-1", "SRC-5")
def test_a_script_that_executes_programs_is_counted_with_each(omn: Command, backend: str) -> None:
    """Twenty programs and the shell itself; each under its own name and arguments, made by the shell."""
    script = "for i in $(seq 20); do /bin/true $i; done"
    asked = ["-m", "trace", "-e", "raw", "--format", "json", "--backend", f"force:{backend}"]
    ran = omn("proc.exec", *asked, "--", "sh", "-c", script)
    assert ran.code == 0, ran.stderr
    assert ran.result["losses"]["dropped"] == 0
    rows = ran.result["raw"]
    shell = ran.document["program"]["pid"]
    assert ran.result["events_seen"] == 22  # the shell, seq, and the twenty
    assert rows[0]["attrs"]["pid"] == shell
    made = [{**row["key"], **row["attrs"]} for row in rows if row["attrs"]["ppid"] == shell]
    assert len(made) >= 20
    commands = {row["argv"] for row in made if row.get("comm") == "true" and "argv" in row}
    wanted = {f"/bin/true {number}" for number in range(1, 21)}
    # What is told is read afterwards: of a program that has ended meanwhile it is absent.
    assert commands == wanted if backend == SEEN else commands <= wanted
    assert [row["ts_ns"] for row in rows] == sorted(row["ts_ns"] for row in rows)


@pytest.mark.spec("AGT-11")
@pytest.mark.parametrize(
    ("environment", "span"),
    [
        (b"A=b\0TRACEPARENT=00-" + b"1f" * 16 + b"-00f067aa0ba902b7-01\0C=d\0", b"00f067aa0ba902b7"),
        (b"TRACEPARENT=00-" + b"1f" * 16 + b"-00f067aa0ba902b7-01", b"00f067aa0ba902b7"),
        (b"TRACEPARENT=00-" + b"1f" * 16 + b"-" + b"0" * 16 + b"-01\0", None),
        (b"TRACEPARENT=00-1f-00f067aa0ba902b7-01\0", None),
        (b"NO_TRACEPARENT=00-" + b"1f" * 16 + b"-00f067aa0ba902b7-01\0", None),
        (b"", None),
    ],
)
def test_the_span_of_an_environment_is_that_of_a_valid_trace_context(environment: bytes, span: bytes | None) -> None:
    """As the trace context of W3C has it; anything else names no span."""
    assert parse_span(environment) == span


@needs_events
@pytest.mark.spec("AGT-11")
def test_a_program_has_the_span_that_its_environment_named(omn: Command) -> None:
    """Each program's own, whatever that of its parent is; none where it has none."""
    parent = "00-" + "ab" * 16 + "-{:016x}-01"
    script = f"TRACEPARENT={parent.format(7)} sleep 0.2; TRACEPARENT={parent.format(9)} sleep 0.2; sleep 0.2"
    backend = ("--backend", f"force:{TOLD}")
    ran = omn("proc.exec", "-m", "trace", "-e", "raw", *backend, "--format", "json", "--", "sh", "-c", script)
    assert ran.code == 0, ran.stderr
    spans = [row["attrs"].get("parent_span") for row in ran.result["raw"] if row["attrs"].get("comm") == "sleep"]
    assert spans == [f"{7:016x}", f"{9:016x}", None]


ENDS = """
import os, signal
for code in (0, 0, 3, 7, 7, 7, 255):
    if (child := os.fork()) == 0:
        os._exit(code)
    os.waitpid(child, 0)
for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGTERM, 40):
    if (child := os.fork()) == 0:
        signal.pause()
    os.kill(child, number)
    os.waitpid(child, 0)
os._exit(9)
"""


@pytest.mark.spec("PRC-1")
def test_children_end_with_the_codes_and_signals_that_they_were_given(omn: Command, backend: str) -> None:
    """Seven codes, four signals, and the program's own; a real-time signal by its number."""
    asked = ["-m", "trace", "-e", "raw", "--format", "json", "--backend", f"force:{backend}"]
    ran = omn("proc.exit", *asked, "--", sys.executable, "-S", "-c", ENDS)
    assert ran.code == 0, ran.stderr
    rows = [row["attrs"] for row in ran.result["raw"]]
    assert Counter(row["code"] for row in rows if "code" in row) == {0: 2, 3: 1, 7: 3, 255: 1, 9: 1}
    assert Counter(row["signal"] for row in rows if "signal" in row) == {"SIGKILL": 1, "SIGTERM": 2, "SIG40": 1}
    assert not any("code" in row and "signal" in row for row in rows)
    assert ran.result["losses"]["dropped"] == 0


FORKS = """
import os, threading
for _ in range(30):
    if (child := os.fork()) == 0:
        os._exit(0)
    os.waitpid(child, 0)
for _ in range(10):
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
"""


@pytest.mark.spec("PRC-1")
def test_what_a_program_makes_is_counted_by_kind(omn: Command, backend: str) -> None:
    """Thirty processes and ten threads, in any of which nothing else is."""
    asked = ["-m", "count", "-e", "count", "-e", "topk:5@kind", "--format", "json", "--backend", f"force:{backend}"]
    ran = omn("proc.fork", *asked, "--", sys.executable, "-S", "-c", FORKS)
    assert ran.code == 0, ran.stderr
    emits = ran.result["series"][0]["emits"]
    assert emits["count"]["value"] == 40
    assert {row["key"]["kind"]: row["value"] for row in emits["topk:5@kind"]["rows"]} == {"process": 30, "thread": 10}


def read_forks() -> int:
    made = find_stat_counter(Path("/proc/stat").read_bytes(), "processes")
    assert made is not None
    return made


@pytest.mark.spec("PRC-1", "CAT-11")
def test_the_machines_forks_are_those_that_the_kernel_counts(catalog: Catalog, backend: str) -> None:
    """Every backend of one quantity: one by one, and as /proc/stat grew meanwhile."""
    outer = read_forks()
    with drive(catalog, "proc.fork", bind_machine(), backend=backend) as driver:
        inner = read_forks()
        for _ in range(100):
            if (child := os.fork()) == 0:
                os._exit(0)
            os.waitpid(child, 0)
        inner = read_forks() - inner
        driver.sample()
        outer = read_forks() - outer
    assert driver.collector.losses().is_empty
    assert 100 <= inner <= len(driver.rows)
    # A program counts until it is detached, which is later.
    assert len(driver.rows) <= outer if backend == TOLD else outer >= 100


DAEMON = """
import os, sys
os.write(1, b"r")
os.read(0, 1)
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.execv("/bin/true", ["true", "daemon"])
os.close(int(sys.argv[1]))
os.wait()
os.write(1, b"d")
os.read(0, 1)
"""


@pytest.mark.spec("SRC-5")
def test_a_process_is_followed_to_what_its_children_make_and_to_nobody_else(catalog: Catalog, backend: str) -> None:
    """A daemon of another session is of the family whoever its parent is by then; what is run beside it is not."""
    ended, writing = os.pipe()
    argv = [sys.executable, "-S", "-c", DAEMON, str(writing)]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, bufsize=0, pass_fds=[writing]) as child:
        os.close(writing)
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.read(1) == b"r"  # its own execve is told of a little after Popen has returned
        with (
            drive(catalog, "proc.exec", bind_processes(child.pid), backend=backend) as executed,
            drive(catalog, "proc.exit", bind_processes(child.pid), backend=backend) as exits,
        ):
            subprocess.run(["/bin/true", "beside"], check=True)
            child.stdin.write(b"\n")
            assert child.stdout.read(1) == b"d"
            assert os.read(ended, 1) == b""  # the daemon held it to its end
            while backend == TOLD and len(exits.rows) < 2:
                exits.sample()
            executed.sample()
        child.stdin.close()
    os.close(ended)
    (row,) = executed.rows
    assert row["execs"] == 1
    assert row["ppid"] not in (child.pid, os.getpid())
    assert [row["code"] for row in exits.rows] == [0, 0]


@needs_events
@pytest.mark.spec("RUN-6")
def test_messages_that_were_not_heard_in_time_are_counted(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for few messages, and nobody to hear them: what was told and what was dropped make up what happened."""
    monkeypatch.setattr("omn_proc.listening.Connector", lambda: Connector(4096))
    with drive(catalog, "proc.fork", bind_machine()) as driver:
        collector = driver.collector
        assert isinstance(collector, Forks)
        # What a cpu drops is missing between two of its messages, so that each has one before.
        for cpu in sorted(os.sched_getaffinity(0)):
            make_one_on(cpu)
            driver.sample()
        with collector.hearing:
            for _ in range(300):
                if (child := os.fork()) == 0:
                    os._exit(0)
                os.waitpid(child, 0)
        rows = driver.sample()
        for _ in range(50):
            # Others' messages may fill the room again before that of a cpu by which its missing ones are counted.
            for cpu in sorted(os.sched_getaffinity(0)):
                make_one_on(cpu)
                rows += driver.sample()
            losses = driver.collector.losses()
            if len(rows) + losses.dropped >= 300:
                break
    assert losses.dropped > 0
    assert losses.is_lower_bound
    assert len(rows) + losses.dropped >= 300
    assert "messages about processes" in losses.reasons[0]


def make_one_on(cpu: int) -> None:
    """Fork on a cpu, so that its next number is heard."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    if (child := os.fork()) == 0:
        os._exit(0)
    os.waitpid(child, 0)
    os.sched_setaffinity(0, before)


def test_a_kernel_that_does_not_tell_is_refused_at_the_attach(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the probe's own reason, before anything runs; the collector lets go of nothing."""

    def refuse() -> Connector:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("omn_proc.listening.Connector", refuse)
    with pytest.raises(MachineRefused, match="closed to this user: CAP_NET_ADMIN is missing"):
        drive(catalog, "proc.exit", bind_machine()).__enter__()


@pytest.mark.spec("PRC-1")
@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("proc.calls", "--cpu", "0", "-d", "1s"), 2, "cpu"),
        (("proc.calls", "-m", "trace", "-e", "raw", "--system", "-d", "1s"), 2, "name a process"),
        (("proc.exit", "--tid", "1", "-d", "1s"), 2, "ask for the process"),
    ],
)
def test_what_nobody_asks_so_is_refused_with_its_sentence(
    omn: Command, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    """With what would be asked instead, before anything runs."""
    ran = omn(*arguments)
    assert ran.code == code, ran.stderr
    assert sentence in ran.stderr

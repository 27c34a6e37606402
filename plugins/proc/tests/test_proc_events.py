"""What programs in the kernel alone see of processes' lives: arguments to their end, threads, signals, cgroups."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from omn_kernel.bpf import collecting, streaming
from omn_kernel.bpf.transport import PerfArrays
from omn_kernel.mounts import find_tracefs
from omn_proc import execs
from omn_proc.programs import ends
from omn_proc.traced import Exits, Forks, Signals

from omn_core.api import BoundTarget, EmitSpec, MachineRefused
from omn_core.model.catalog import Catalog
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_processes, resolve_onto

pytestmark = pytest.mark.usefixtures("loads_programs")


COLLECTORS: dict[str, Any] = {
    "proc.exec": execs.Execs,
    "proc.exit": Exits,
    "proc.fork": Forks,
    "proc.signals": Signals,
}


def drive(catalog: Catalog, source: str, target: BoundTarget, *keys: str) -> Driver:
    resolved = resolve_onto(catalog.entries[source], "bpf:raw_tp", target.target, mode="trace", keys=keys)
    return Driver(COLLECTORS[source](), attrs.evolve(resolved, emits=(EmitSpec("raw"),)), target)


@pytest.fixture(params=["typed", "numbers"])
def pointers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How programs reach what they are handed: by types that the verifier knows, or as older kernels do, by copying."""
    if request.param == "numbers":
        real = collecting.ProgramCollector._load_kernel

        def load(self: Any, name: str, write: Any, hook: Any, *, has_typed_pointers: bool) -> None:
            if has_typed_pointers:
                raise MachineRefused("no such programs")
            real(self, name, write, hook, has_typed_pointers=False)

        monkeypatch.setattr(collecting.ProgramCollector, "_load_kernel", load)
        monkeypatch.setattr(streaming, "open_transport", PerfArrays)
    return str(request.param)


EXECS = """
import os, subprocess, sys
for length in (1, 240, 246, 247, 255, 256, 257, 4084, 4085, 4086, 65536):
    subprocess.run(["/bin/true", "x" * length], check=True)
subprocess.run(["/bin/true", "a b", "", "c"], check=True)
subprocess.run(["/bin/true", "x" * 65536, "y" * 65536], env={}, check=True)
"""
"""Arguments whose ends fall on every side of where a program's pieces end, and of where it stops."""
SPELT = ["x" * length for length in (1, 240, 246, 247, 255, 256, 257, 4084, 4085, 4086, 65536)]


@pytest.mark.spec("SRC-5", "KRN-3", "KRN-4")
def test_arguments_are_read_to_their_end_or_to_where_they_are_cut(catalog: Catalog, pointers: str) -> None:
    """In the kernel, before the program's first instruction; how long they were is said of those that are cut."""
    with drive(catalog, "proc.exec", bind_processes(os.getpid()), "task", "comm") as driver:
        subprocess.run([sys.executable, "-S", "-c", EXECS], check=True)
    rows = [row for row in driver.rows if row["comm"] == "true"]
    said = [f"/bin/true {one}" for one in SPELT] + ["/bin/true a b  c", f"/bin/true {'x' * 65536} {'y' * 65536}"]
    assert [row["argv"] for row in rows] == [one[:4096] for one in said]
    assert [row["argv_bytes"] for row in rows] == [len(one) + 1 for one in said]
    assert driver.collector.degradations() == ("3 programs had more than 4096 bytes of arguments, which are cut there",)
    assert driver.collector.losses().is_empty
    assert driver.collector.fields()["delivered"] == len(driver.rows) == len(said) + 1


@pytest.mark.spec("SRC-5", "KRN-4")
def test_programs_that_find_no_room_are_counted_and_their_arguments_not_twice(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs told of and programs lost are those that were executed, however many pieces their arguments have."""
    monkeypatch.setattr("omn_kernel.bpf.transport.compute_room", lambda cpus: 1 << 14)
    with drive(catalog, "proc.exec", bind_processes(os.getpid())) as driver:
        for _ in range(30):
            subprocess.run(["/bin/true", "x" * 3000], check=True)
    losses = driver.collector.losses()
    assert losses.dropped > 0
    assert len(driver.rows) + losses.dropped == 30
    assert any("pieces of longer arguments" in said for said in driver.collector.degradations())


THREADED = """
import ctypes, os, threading
libc = ctypes.CDLL(None)
def leave_first(status):
    # The first thread ends by itself; the process ends with its last.
    if (child := os.fork()) == 0:
        def last():
            while open(f"/proc/{os.getpid()}/stat").read().rpartition(")")[2].split()[0] != "Z":
                os.sched_yield()
            libc.syscall(60, status)  # exit, of this thread
        threading.Thread(target=last).start()
        libc.syscall(60, 5)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
leave_first(9)
if (child := os.fork()) == 0:
    threads = [threading.Thread(target=os.read, args=(os.pipe()[0], 1)) for _ in range(20)]
    for thread in threads: thread.start()
    os._exit(4)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
if (child := os.fork()) == 0:
    for _ in range(20): threading.Thread(target=os.read, args=(os.pipe()[0], 1)).start()
    os.kill(os.getpid(), 9)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
if (child := os.fork()) == 0:
    # A thread that is not the first executes a program: nothing ends.
    threading.Thread(target=os.execv, args=("/bin/false", ["false"])).start()
    os.read(os.pipe()[0], 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.spec("PRC-1")
@pytest.mark.parametrize("is_told", [True, False])
def test_a_process_of_threads_ends_once_with_what_its_parent_is_told(
    catalog: Catalog, pointers: str, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever thread is the last, and on kernels that do not say which one that is; held to what wait(2) says."""
    if not is_told:
        monkeypatch.setattr(ends, "spell_tracepoint", lambda *_: ("task",))
    with drive(catalog, "proc.exit", bind_processes(os.getpid()), "task") as driver:
        told = subprocess.run([sys.executable, "-S", "-c", THREADED], check=True, stdout=subprocess.PIPE).stdout
    waited = [int(line) for line in told.split()]
    *children, program = driver.rows
    # Since Linux 6.2 the status of a process that ends thread by thread is that of its last one.
    assert waited in ([5, 4, -signal.SIGKILL, 1], [9, 4, -signal.SIGKILL, 1])
    assert [row.get("code", -9 if row.get("signal") == "SIGKILL" else None) for row in children] == waited
    assert program["code"] == 0
    assert len({row["task"] for row in driver.rows}) == 5
    assert all(row["task"] == row["pid"] and row["exits"] == 1 for row in driver.rows)
    assert all(0 < row["lifetime_ns"] <= program["lifetime_ns"] for row in children)
    assert driver.collector.losses().is_empty


USERS = """
import os, threading, time

def burn(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until: pass

def work_alone():
    burn(0.06)
    with open(os.sys.argv[1], "wb") as file:
        file.write(bytes(1 << 20)); file.flush(); os.fsync(file.fileno())

def work_together():
    # Two that end before the others, and two that the process's end cuts off.
    ended = [threading.Thread(target=burn, args=(0.02,)) for _ in range(2)]
    for thread in ended: thread.start()
    for thread in ended: thread.join()
    gates = [threading.Event() for _ in range(2)]
    for gate in gates:
        threading.Thread(target=lambda gate=gate: (burn(0.02), gate.set(), time.sleep(60)), daemon=True).start()
    for gate in gates: gate.wait()

for work in (work_alone, work_together):
    if (child := os.fork()) == 0:
        work()
        os._exit(0)
    _, _, usage = os.wait4(child, 0)
    print(child, round((usage.ru_utime + usage.ru_stime) * 1e9), usage.ru_inblock * 512, usage.ru_oublock * 512)
"""
_TICK_NS = 10_000_000


@pytest.mark.spec("PRC-1", "AGT-11")
def test_a_process_has_what_all_its_threads_used(catalog: Catalog, pointers: str, tmp_path: Path) -> None:
    """Held to wait4(2), to a tick of each thread; bytes are its own, and no child's that it waited for."""
    with drive(catalog, "proc.exit", bind_processes(os.getpid()), "task") as driver:
        command = [sys.executable, "-S", "-c", USERS, str(tmp_path / "written")]
        told = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    waited = {int(pid): tuple(map(int, rest)) for pid, *rest in map(bytes.split, told.splitlines())}
    rows = {row["pid"]: row for row in driver.rows}
    for threads, (pid, (cpu_ns, read_bytes, write_bytes)) in zip((1, 5), waited.items(), strict=True):
        assert cpu_ns - threads * _TICK_NS <= rows[pid]["cpu_ns"] <= cpu_ns + _TICK_NS
        assert (rows[pid]["read_bytes"], rows[pid]["write_bytes"]) == (read_bytes, write_bytes)
    alone, together = (rows[pid] for pid in waited)
    assert alone["write_bytes"] >= 1 << 20
    assert together["cpu_ns"] >= 4 * (20_000_000 - _TICK_NS)
    (program,) = (row for pid, row in rows.items() if pid not in waited)
    assert program["write_bytes"] < 1 << 20


SIGNALS = """
import os, signal, sys
signal.signal(signal.SIGUSR1, lambda *_: None)
signal.signal(signal.SIGUSR2, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGALRM])
print(os.getpid(), flush=True)
sys.stdin.readline()
signal.setitimer(signal.ITIMER_REAL, 0.001)
signal.sigwait([signal.SIGALRM])
print(flush=True)
sys.stdin.readline()
"""


@pytest.mark.spec("PRC-1", "SRC-5")
def test_signals_are_told_with_who_sent_them_and_what_became_of_them(catalog: Catalog, pointers: str) -> None:
    """Handled, ignored, merged with one that waits, of a timer; of a child's end; and none that somebody else gets."""
    with subprocess.Popen(
        [sys.executable, "-S", "-c", SIGNALS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        pid = int(child.stdout.readline())
        with drive(catalog, "proc.signals", bind_processes(pid), "task", "op", "comm") as driver:
            for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM, signal.SIGTERM):
                os.kill(pid, number)
            os.kill(os.getpid(), 0)
            child.stdin.write(b"\n")
            child.stdout.readline()
        child.stdin.write(b"\n")
        child.stdin.close()
    rows = driver.rows
    own = {"sender_pid": os.getpid(), "sender_comm": Path("/proc/self/comm").read_text().rstrip("\n")}
    assert [(row["signal"], row["op"]) for row in rows] == [
        ("SIGUSR1", "sent"),
        ("SIGUSR2", "ignored"),
        ("SIGTERM", "sent"),
        ("SIGTERM", "merged"),
        ("SIGALRM", "sent"),
    ]
    assert [{name: row.get(name) for name in own} for row in rows[:4]] == [own] * 4
    assert "sender_pid" not in rows[4]
    assert "sender_comm" not in rows[4]
    assert all(row["task"] == row["pid"] == pid and row["signals"] == 1 for row in rows)


@pytest.mark.spec("PRC-1", "KRN-4")
def test_what_happens_is_added_up_in_the_kernel_by_what_divides_it(omn: Command) -> None:
    """A count hands no event over: rows by label, by name and by sender, of a program's whole life."""
    program = """
import os, signal
signal.signal(signal.SIGUSR1, lambda *_: None)
for number in range(300):
    os.kill(os.getpid(), signal.SIGUSR1 if number % 3 else signal.SIGURG)
for _ in range(7):
    if (child := os.fork()) == 0:
        os._exit(3)
    os.waitpid(child, 0)
"""
    target = {"launch": [sys.executable, "-S", "-c", program]}
    asked = [
        {"source": "proc.signals", "mode": "count", "emits": ["count", "topk:9@signal", "topk:9@sender_comm"]},
        {"source": "proc.signals", "mode": "count", "emits": ["topk:9@op"], "filter": "signal != 'SIGCHLD'"},
        {"source": "proc.exit", "mode": "count", "emits": ["topk:9@code"]},
        {"source": "proc.fork", "mode": "poll", "emits": ["summary", "rate"], "interval": "50ms"},
        {"source": "proc.exec", "mode": "count", "emits": ["count"], "keys": ["comm"]},
        {"source": "proc.signals", "mode": "count", "emits": ["count"], "filter": "signal == 'SIGWINCH'"},
    ]
    session = json.dumps({"requests": [{**one, "backend": "bpf:raw_tp", "target": target} for one in asked]}).encode()
    ran = omn("-f", "-", "--format", "json", stdin=session)
    assert ran.code == 0, ran.stderr
    signals, fates, exits, forks, executed, none = (one["series"][0]["emits"] for one in ran.document["results"])
    name = Path(sys.executable).resolve().name[:15]
    assert signals["count"]["value"] == 307
    assert count_rows(signals["topk:9@signal"], "signal") == {"SIGUSR1": 200, "SIGURG": 100, "SIGCHLD": 7}
    assert sum(count_rows(signals["topk:9@sender_comm"], "sender_comm").values()) == 307
    assert count_rows(fates["topk:9@op"], "op") == {"sent": 200, "ignored": 100}
    assert count_rows(exits["topk:9@code"], "code") == {3: 7, 0: 1}
    assert forks["rate"]["total"] == 7
    assert executed["count"]["value"] == 1
    assert none["count"]["value"] == 0
    assert name.startswith("python")
    assert all(one["losses"]["dropped"] == 0 for one in ran.document["results"])


def count_rows(answer: dict[str, Any], attribute: str) -> Counter[Any]:
    return Counter({row["key"][attribute]: row["value"] for row in answer["rows"]})


@pytest.mark.spec("PRC-1", "KRN-5")
def test_forks_of_a_cgroup_are_those_of_its_processes(omn: Command, make_cgroup: Callable[[str], Path]) -> None:
    """And of no process outside; which the fallbacks that know of no cgroup leave to programs."""
    cgroup = make_cgroup("unified")
    inside = f"(echo 0 > {cgroup}/cgroup.procs; /bin/true; /bin/true; /bin/true; :)"
    argv = ["sh", "-c", f"/bin/true; {inside}; /bin/true"]
    ran = omn("proc.fork", "-m", "count", "-e", "count", "--cgroup", str(cgroup), "--format", "json", "--", *argv)
    assert ran.code == 0, ran.stderr
    assert ran.result["series"][0]["emits"]["count"]["value"] == 3


LIVES = """
import os, signal, subprocess, threading
signal.signal(signal.SIGUSR1, lambda *_: None)
for code in (0, 3, 7):
    if (child := os.fork()) == 0:
        os._exit(code)
    os.waitpid(child, 0)
for _ in range(4): subprocess.run(["/bin/true"], check=True)
thread = threading.Thread(target=int)
thread.start()
thread.join()
for _ in range(5): os.kill(os.getpid(), signal.SIGUSR1)
"""


@pytest.mark.spec("KRN-3", "CAT-11")
@pytest.mark.skipif(find_tracefs("/") is None, reason="tracefs is not mounted")
def test_records_of_classic_tracepoints_tell_the_same_lives(omn: Command) -> None:
    """Without the kernel's types: the same events of the same tasks, with what a record says of each."""
    target = {"launch": [sys.executable, "-S", "-c", LIVES]}
    asked: list[dict[str, Any]] = [
        {"source": source, "mode": "trace", "emits": ["raw"], "backend": backend, "target": target}
        for source in ("proc.fork", "proc.exec", "proc.exit", "proc.signals")
        for backend in ("bpf:raw_tp", "bpf:tp")
    ]
    ran = omn("-f", "-", "--format", "json", stdin=json.dumps({"requests": asked}).encode())
    assert ran.code == 0, ran.stderr
    results = ran.document["results"]
    assert [one["events_seen"] for one in results[::2]] == [8, 5, 8, 12]
    for typed, recorded in zip(results[::2], results[1::2], strict=True):
        assert recorded["losses"]["dropped"] == 0
        names = {"task", "pid", "comm", "child", "kind", "op", "signal", "sender_pid", "sender_comm", "execs", "forks"}
        if typed["request"]["source"] == "proc.exit":
            names.remove("signal")  # the record has no status
        told, read = (
            [{name: value for name, value in {**row["key"], **row["attrs"]}.items() if name in names} for row in rows]
            for rows in (typed["raw"], recorded["raw"])
        )
        assert told == read

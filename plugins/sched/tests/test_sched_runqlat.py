"""Waits for a cpu as programs in the kernel measure them, held against the kernel's own account of the same threads."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import accumulate
from pathlib import Path
from typing import Any

import attrs
import pytest
from omn_kernel.bpf import running
from omn_kernel.bpf.assembly import Assembled
from omn_kernel.bpf.hooks import TypedTracepoint
from omn_kernel.bpf.loading import Hook, LoadedProgram, load
from omn_kernel.bpf.registers import R0, R5
from omn_kernel.bpf.rejections import ProgramRejected
from omn_kernel.btf.kernel import PATH
from omn_kernel.cgroup import UNIFIED, bind_cgroup_path, parse_cgroup
from omn_kernel.native import calls
from omn_kernel.native._calls import lib
from omn_kernel.procfs.process import find_process_key
from omn_kernel.procfs.task import parse_schedstat, parse_stat
from omn_sched.programs.runqlat import RunQueueWaits
from omn_sched.traced import Waits

from omn_core.api import BoundTarget, EmitSpec, MachineRefused, Target
from omn_core.model.catalog import Catalog
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_machine, bind_processes, bind_thread, list_rows, resolve_onto

pytestmark = pytest.mark.usefixtures("loads_typed_programs")
PROGRAMS = "bpf:raw_tp"
# Three children share a cpu: each runs and sleeps in turn, so that some waits follow a wakeup and others a turn that
# was cut short. Each leaves what the kernel says of it, and the times before and after the reading.
CONTEND = """
import os, sys, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
read, write = os.pipe()
for _ in range(3):
    if os.fork() == 0:
        os.read(read, 1)
        for _ in range(15):
            end = time.thread_time_ns() + 2_000_000
            while time.thread_time_ns() < end:
                pass
            time.sleep(0.0005)
        before = time.monotonic_ns()
        account = open("/proc/thread-self/schedstat").read()
        after = time.monotonic_ns()
        with open(sys.argv[1] + "/" + str(os.getpid()), "w") as file:
            file.write(account + f"{before} {after}")
        os._exit(0)
HELD
os.write(write, b"xxx")
for _ in range(3):
    os.wait()
"""
LAUNCHED = CONTEND.replace("HELD", "")
HELD = CONTEND.replace("HELD", "print('ready', flush=True)\nsys.stdin.readline()")


@attrs.frozen
class Account:
    """What a child said of itself at its end, and what it had waited before it was let run."""

    waited_ns: int
    before_ns: int
    after_ns: int
    slices: int


class Contention:
    """The program with its children, who wait to be let run."""

    def __init__(self, program: subprocess.Popen[bytes], folder: Path) -> None:
        self.pid = program.pid
        self._program = program
        self._folder = folder
        children = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()
        self.children = [int(pid) for pid in children]
        for pid in self.children:
            while parse_stat(Path(f"/proc/{pid}/stat").read_bytes()).state != "S":
                os.sched_yield()
        self._before = {pid: parse_schedstat(Path(f"/proc/{pid}/schedstat").read_bytes()) for pid in self.children}

    def let_run(self) -> None:
        """Let the children run to their end."""
        self._program.communicate(b"\n")
        assert self._program.returncode == 0

    def read_accounts(self) -> dict[int, Account]:
        """Read what each child waited from when it was let run until its last word."""
        accounts = {}
        for pid, before in self._before.items():
            said, times = (self._folder / str(pid)).read_bytes().splitlines()
            account = parse_schedstat(said)
            began, ended = (int(word) for word in times.split())
            accounts[pid] = Account(account.wait_ns - before.wait_ns, began, ended, account.slices - before.slices)
        assert len(accounts) == 3
        assert all(account.waited_ns > 5_000_000 for account in accounts.values())
        return accounts


@pytest.fixture
def contention(tmp_path: Path) -> Iterator[Contention]:
    argv = [sys.executable, "-c", HELD, str(tmp_path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"ready\n"
        yield Contention(program, tmp_path)


def drive(catalog: Catalog, target: BoundTarget, **asked: Any) -> Driver:
    entry = catalog.entries["sched.runqlat"]
    emits = asked.pop("emits", ("summary",))
    resolved = resolve_onto(entry, PROGRAMS, target.target, **{"mode": "trace", "keys": ("task",), **asked})
    return Driver(Waits(), attrs.evolve(resolved, emits=tuple(EmitSpec(name) for name in emits)), target)


def check(driver: Driver, known: Mapping[int, Account]) -> None:
    """Hold the events of each child against its account: what they added up to when it was read, and how many."""
    rows = driver.rows
    merged = driver.collector.fields()["merged"]
    for task, account in known.items():
        waits = [(row["ts_ns"], row["wait_ns"]) for row in rows if row.get("task") == task]
        assert account.waited_ns in list_sums(waits, account.before_ns, account.after_ns), (account, waits)
        assert sum(ts_ns <= account.before_ns for ts_ns, _ in waits) <= account.slices
    # A wait whose end passed no tracepoint is counted with the next of its thread, which a child's last has not.
    own = [row for row in rows if row.get("task") in known and row["ts_ns"] <= known[row["task"]].after_ns]
    assert sum(account.slices for account in known.values()) <= len(own) + merged + len(known)


def list_sums(waits: Sequence[tuple[int, int]], before_ns: int, after_ns: int) -> list[int]:
    """List what waits added up to from one moment to another, as each of them came between."""
    early = sum(wait for ts_ns, wait in waits if ts_ns <= before_ns)
    between = sorted((ts_ns, wait) for ts_ns, wait in waits if before_ns < ts_ns <= after_ns)
    return list(accumulate((wait for _, wait in between), initial=early))


def sum_by_task(rows: Sequence[Mapping[str, Any]], name: str = "wait_ns") -> dict[int, int]:
    sums: dict[int, int] = {}
    for row in rows:
        sums[row["task"]] = sums.get(row["task"], 0) + row[name]
    return sums


@pytest.mark.spec("SRC-2", "KRN-5")
def test_the_waits_of_each_thread_are_the_kernels_account(catalog: Catalog, contention: Contention) -> None:
    """What a process's children wait, who were there before it was named, adds up to what their schedstat grew by."""
    with drive(catalog, bind_processes(contention.pid)) as driver:
        contention.let_run()
        driver.sample()
    check(driver, contention.read_accounts())
    assert driver.collector.losses().is_empty
    assert driver.collector.row_stamp() is None


@pytest.mark.spec("SRC-2", "KRN-3")
def test_the_same_programs_measure_where_pointers_have_no_types(
    catalog: Catalog, contention: Contention, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel that takes no program with types is served by the raw tracepoint, every field through a helper."""
    loaded: list[str] = []

    def load_raw_alone(program: Assembled, hook: Hook) -> LoadedProgram:
        loaded.append(hook.spelling)
        if isinstance(hook, TypedTracepoint):
            raise MachineRefused("no typed tracepoints here")
        return load(program, hook)

    monkeypatch.setattr(running, "load", load_raw_alone)
    with drive(catalog, bind_processes(contention.pid)) as driver:
        contention.let_run()
        driver.sample()
    check(driver, contention.read_accounts())
    assert loaded[-2:] == ["typed tracepoint sched_switch", "raw tracepoint sched_switch"]


@pytest.mark.spec("SRC-2")
def test_what_the_kernel_adds_up_is_what_the_events_are(catalog: Catalog, contention: Contention) -> None:
    """Counted, polled and as a histogram, bucket by bucket: the sums of the same waits, to the nanosecond."""
    asked: dict[str, dict[str, Any]] = {
        "trace": {},
        "count": {"mode": "count", "emits": ("count",)},
        "poll": {"mode": "poll"},
        "hist": {"emits": ("hist",)},
    }
    with ExitStack() as stack:
        drivers = {
            name: stack.enter_context(drive(catalog, bind_processes(contention.pid), **each))
            for name, each in asked.items()
        }
        contention.let_run()
        for name in ("trace", "count", "poll"):
            drivers[name].sample()
        histogram = drivers["hist"].collector.sample(time.monotonic_ns())
    events = drivers["trace"].rows
    known = sum_by_task(events)
    assert sum_by_task(drivers["count"].rows, "total_ns") == known
    assert sum_by_task(drivers["poll"].rows) == known
    assert sum_by_task(drivers["poll"].rows, "slices") == Counter(row["task"] for row in events)
    rows = list_rows(histogram)
    assert sum_by_task(rows, "total_ns") == known
    assert histogram.weight is not None
    buckets = [(row["task"], row["wait_ns"].bit_length()) for row in rows]
    counted = dict(zip(buckets, histogram.weight.tolist(), strict=True))
    assert counted == Counter((row["task"], row["wait_ns"].bit_length()) for row in events)
    stamps = {name: driver.collector.row_stamp() for name, driver in drivers.items()}
    assert stamps == {"trace": None, "count": "drain", "poll": "drain", "hist": "drain"}


@pytest.mark.spec("SRC-2")
def test_the_tracepoints_figure_stands_apart_and_only_where_a_thread_was_woken(
    catalog: Catalog, contention: Contention
) -> None:
    """A turn that was cut short is followed by a wait without a wakeup; one that follows a wakeup is about as long."""
    with drive(catalog, bind_processes(contention.pid)) as driver:
        contention.let_run()
        driver.sample()
    woken = [row for row in driver.rows if "wake_to_run_ns" in row]
    assert 3 * 15 <= len(woken) < len(driver.rows)
    waited = sum(row["wait_ns"] for row in woken)
    assert 0.8 * waited <= sum(row["wake_to_run_ns"] for row in woken) <= 1.2 * waited + 1_000_000 * len(woken)


def test_a_filter_on_a_wait_is_asked_of_each(catalog: Catalog, contention: Contention) -> None:
    """Sums of what was filtered cannot be made of sums, so that the events are handed over."""
    target = bind_processes(contention.pid)
    with drive(catalog, target, mode="count", emits=("count",), predicate="wait_ns > 1000000") as driver:
        contention.let_run()
        driver.sample()
    check(driver, contention.read_accounts())


def test_a_row_names_its_task_by_all_that_is_shown(catalog: Catalog, contention: Contention) -> None:
    """Its thread, its process and that one's parent, its name, its cpu and its cgroup, as /proc has them."""
    keys = ("task", "proc", "comm", "cpu", "cgroup")
    proc = {pid: find_process_key("/", pid) for pid in contention.children}
    cgroup = parse_cgroup(Path(f"/proc/{contention.pid}/cgroup").read_bytes()).get(UNIFIED)
    with drive(catalog, bind_processes(contention.pid), keys=keys, emits=("raw",)) as driver:
        contention.let_run()
        driver.sample()
    rows = [row for row in driver.rows if row["task"] in proc]
    assert {row["task"] for row in rows} == set(proc)
    for row in rows:
        assert (row["pid"], row["ppid"], row["proc"]) == (row["task"], contention.pid, proc[row["task"]])
        assert (row["comm"], row["cpu"]) == (os.path.basename(sys.executable), min(os.sched_getaffinity(0)))
        assert cgroup is None or row["cgroup"] == cgroup


# Targets ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cpus", [(), (min(os.sched_getaffinity(0)),)])
def test_the_machine_has_the_waits_of_everybody(
    catalog: Catalog, contention: Contention, cpus: tuple[int, ...]
) -> None:
    """The children are told among all tasks, of a cpu among those that it served; an idle cpu waits for nothing."""
    with drive(catalog, bind_machine(*cpus), keys=("task", "cpu")) as driver:
        contention.let_run()
        driver.sample()
    check(driver, contention.read_accounts())
    assert 0 not in {row["task"] for row in driver.rows}
    assert not cpus or {row["cpu"] for row in driver.rows} == set(cpus)


def test_one_thread_has_its_own_waits_alone(catalog: Catalog, contention: Contention) -> None:
    """A thread is told by its number: what it started is not its."""
    first = contention.children[0]
    with drive(catalog, bind_thread(first, first)) as driver:
        contention.let_run()
        driver.sample()
    assert {row["task"] for row in driver.rows} == {first}
    check(driver, {first: contention.read_accounts()[first]})


def test_a_cgroup_has_the_waits_of_what_is_in_it(
    catalog: Catalog, contention: Contention, make_cgroup: Callable[[str], Path]
) -> None:
    """Children that were moved into it wait for a cpu in it, and are told by its path; their parent is not there."""
    folder = make_cgroup("unified")
    for pid in contention.children:
        (folder / "cgroup.procs").write_text(str(pid))
    place = bind_cgroup_path(f"/{folder.name}", "/")
    target = BoundTarget(Target("cgroup", place.path), "cgroup", place=place)
    with drive(catalog, target, keys=("task", "cgroup")) as driver:
        contention.let_run()
        driver.sample()
    assert {row["cgroup"] for row in driver.rows} == {f"/{folder.name}"}
    assert {row["task"] for row in driver.rows} == set(contention.children)
    check(driver, contention.read_accounts())


@pytest.mark.spec("SRC-2")
def test_a_launched_programs_waits_are_seen_from_the_command_line(omn: Command, tmp_path: Path) -> None:
    """From its first instruction, its children's too: within 2 % of what they say they waited."""
    argv = [sys.executable, "-c", LAUNCHED, str(tmp_path)]
    ran = omn("sched.runqlat", "-m", "trace", "-e", "raw", "--keys", "task", "--format", "json", "--", *argv)
    assert ran.code == 0, ran.stderr
    assert ran.result["backend"] == PROGRAMS
    assert ran.result["losses"]["dropped"] == 0
    for path in (path for path in tmp_path.iterdir() if path.name.isdigit()):
        said, times = path.read_bytes().splitlines()
        before, after = (int(word) for word in times.split())
        own = [row for row in ran.result["raw"] if row["key"]["task"] == int(path.name)]
        waits = [(row["ts_ns"], row["attrs"]["wait_ns"]) for row in own]
        known = parse_schedstat(said).wait_ns
        assert any(0.98 * known <= one <= 1.02 * known + 5_000_000 for one in list_sums(waits, before, after))


# What refuses it ----------------------------------------------------------------------------------------------------


def test_what_stands_in_the_way_is_said(omn: Command, tmp_path: Path) -> None:
    """Without the capability it is the machine's, by its name; without the kernel's types it is missing."""
    asked = ["sched.runqlat", "-m", "count", "-e", "count", "-d", "100ms", "--format", "json"]
    drop = ["setpriv", "--bounding-set=-bpf,-sys_admin", "--inh-caps=-bpf,-sys_admin", *omn.argv, *asked]
    for more, code in (["--backend", f"force:{PROGRAMS}"], 1), ([], 0):
        argv = [*drop, "--pid", str(os.getpid()), *more]
        done = subprocess.run(argv, capture_output=True, text=True, env=omn.environment(), check=False)
        assert done.returncode == code, done.stderr
        if code:
            assert "CAP_BPF" in done.stderr
            assert done.stderr.splitlines()[-1] == "omn: this machine refused the request; nothing ran"
        else:
            assert json.loads(done.stdout)["results"][0]["backend"] == "fs:proc:schedstat"
    gone = omn(*asked, "--pid", "4000000")
    assert (gone.code, "4000000" in gone.stderr) == (1, True)
    listed = omn("list", "sched.runqlat", "--format", "json", OMN_SYSROOT=str(tmp_path)).document
    programs = next(one for one in listed["sources"][0]["backends"] if one["id"] == PROGRAMS)
    assert programs["state"] == "missing"
    assert PATH in programs["reason"]


@pytest.mark.spec("KRN-2")
def test_a_spoilt_program_is_refused_by_instruction_and_line(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verifier's complaint is about the line that reads what was never written, and nothing is left loaded."""

    def spoil(tracer: RunQueueWaits, program: Any) -> None:
        program.move(R0, R5)

    monkeypatch.setattr(RunQueueWaits, "_read_waited", spoil)
    before = list_identifiers()
    with pytest.raises(ProgramRejected) as rejected:
        enter(drive(catalog, bind_processes(os.getpid())))
    error = rejected.value
    assert error.verdict.text == "r0 = r5"
    assert (Path(error.lines[0].path), "move(R0, R5)" in read_line(error.lines[0])) == (Path(__file__), True)
    assert f"test_sched_runqlat.py:{error.lines[0].number}" in str(error)
    assert_gone(list_identifiers_of(os.getpid()) - before)


def read_line(line: Any) -> str:
    return Path(line.path).read_text().splitlines()[line.number - 1]


def enter(driver: Driver) -> None:
    """Begin as the runner does, which stops a collector that refuses."""
    try:
        driver.__enter__()
    except MachineRefused:
        driver.__exit__(None, None, None)
        raise


# What is left -------------------------------------------------------------------------------------------------------

Identifier = tuple[str, int]
_NEXT = {"prog": lib.BPF_PROG_GET_NEXT_ID, "map": lib.BPF_MAP_GET_NEXT_ID, "link": lib.BPF_LINK_GET_NEXT_ID}


def list_identifiers() -> set[Identifier]:
    """List every program, map and link that the kernel has."""
    found: set[Identifier] = set()
    for kind, command in _NEXT.items():
        number = 0
        while True:
            attributes = calls.make_attributes(start_id=number)
            try:
                calls.bpf(command, attributes)
            except FileNotFoundError:
                break
            number = attributes.next_id
            found.add((kind, number))
    return found


def list_identifiers_of(pid: int) -> set[Identifier]:
    """List those that a process holds, by what the kernel says of its descriptors."""
    found: set[Identifier] = set()
    for path in Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            lines = path.read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, value = line.partition(":")
            if name in ("prog_id", "map_id", "link_id"):
                found.add((name.removesuffix("_id"), int(value)))
    return found


def wait_for_programs(pid: int) -> set[Identifier]:
    """Wait until omn has attached the last of its programs, and return all that it holds then."""
    while True:
        held = list_identifiers_of(pid)
        if sum(kind == "link" for kind, _ in held) >= 4:
            return held
        os.sched_yield()


def assert_gone(held: set[Identifier]) -> None:
    """Wait until the kernel has let go of what nobody holds any more, which it does some time later."""
    deadline = time.monotonic() + 20
    while (left := held & list_identifiers()) and time.monotonic() < deadline:
        os.sched_yield()
    assert not left


@pytest.mark.spec("KRN-4")
def test_nothing_is_left_in_the_kernel_however_omn_ends(omn: Command) -> None:
    """Programs, maps and links that omn held while it ran are listed by nobody once it has ended."""
    for emit, end in ("summary", None), ("hist", signal.SIGINT), ("summary", signal.SIGKILL):
        duration = "60s" if end else "300ms"
        argv = [*omn.argv, "sched.runqlat", "-m", "trace", "-e", emit, "--system", "-d", duration]
        quiet = subprocess.DEVNULL
        with subprocess.Popen(argv, stdout=quiet, stderr=quiet, env=omn.environment()) as running_omn:
            held = wait_for_programs(running_omn.pid)
            assert {kind for kind, _ in held} == {"prog", "map", "link"}
            if end:
                running_omn.send_signal(end)
        assert_gone(held)


@pytest.mark.spec("KRN-4")
def test_nothing_is_left_in_the_kernel_after_a_refusal_half_way(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three programs are attached and the fourth is refused: all that was held until then is let go."""
    held: set[Identifier] = set()
    attach = running.attach

    def refuse_last(program: Any, hook: Any) -> Any:
        held.update(list_identifiers_of(os.getpid()))
        if "sched_switch" in hook.spelling:
            raise MachineRefused("refused half-way")
        return attach(program, hook)

    monkeypatch.setattr(running, "attach", refuse_last)
    before = list_identifiers_of(os.getpid())
    with pytest.raises(MachineRefused, match="half-way"):
        enter(drive(catalog, bind_processes(os.getpid())))
    assert {kind for kind, _ in held - before} == {"prog", "map", "link"}
    assert_gone(held - before)


def test_a_wakeup_that_switches_at_once_is_no_wait_of_the_kernels(omn: Command) -> None:
    """Its account says 0 and the tracepoints how long it was, which the answer says of itself."""
    nap = "import time\nfor _ in range(300): time.sleep(0.0002)"
    ran = omn("sched.runqlat", "-m", "trace", "-e", "raw", "--format", "json", "--", sys.executable, "-c", nap)
    assert ran.code == 0, ran.stderr
    woken = [row["attrs"] for row in ran.result["raw"] if row["attrs"].get("wake_to_run_ns") is not None]
    assert len(woken) >= 100
    assert min(row["wake_to_run_ns"] for row in woken) > 0
    assert any(row["wait_ns"] == 0 for row in woken)
    assert any("the wait is 0" in caveat for caveat in ran.result["caveats"])

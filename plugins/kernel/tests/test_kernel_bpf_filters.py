"""Whose a task is: programs count the calls of a target's tasks, each of them and no other's."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import numpy as np
import pytest
from omn_kernel.bpf.assembly import Assembly, Record
from omn_kernel.bpf.attaching import AnyHook, attach
from omn_kernel.bpf.filters import (
    AnyTask,
    InCgroup,
    OnCpus,
    OneThread,
    TaskFilter,
    find_cgroup_filter,
    find_filter,
    open_cgroup_filter,
)
from omn_kernel.bpf.followers import Follower, RecordFollower
from omn_kernel.bpf.hooks import RawTracepoint, Tracepoint, TypedTracepoint
from omn_kernel.bpf.loading import load
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.pieces import compute_bucket, read_clock
from omn_kernel.bpf.reading import KernelAssembly, RecordAssembly
from omn_kernel.bpf.records import RecordedAssembly
from omn_kernel.bpf.registers import R0, R1, R2, R6, R7, R8, R9
from omn_kernel.btf.kernel import PATH, read_kernel_btf
from omn_kernel.btf.types import Btf
from omn_kernel.cgroup import CgroupPlace, bind_cgroup_path
from omn_kernel.mounts import find_tracefs
from omn_kernel.procfs.process import read_stat
from omn_kernel.tracepoints import read_format

from omn_core.api import BoundTarget, MachineRefused, ProcessHandle, Target

pytestmark = pytest.mark.usefixtures("loads_programs")
CALLS = 50
GETPRIORITY = 140 if os.uname().machine == "x86_64" else 141
COUNT = np.dtype([("calls", "u8")])
# A call that nothing else here makes; the number tells whose it was meant to be.
CALL = f"import os\nfor _ in range({CALLS}): os.getpriority(os.PRIO_PROCESS, 0)\n"
TREE = f"""
import os, threading
{CALL}
thread = threading.Thread(target=lambda: exec({CALL!r}))
thread.start()
thread.join()
child = os.fork()
if child == 0:
    grandchild = os.fork()
    if grandchild == 0:
        os.execv({sys.executable!r}, [{sys.executable!r}, "-c", {CALL!r}])
    os.waitpid(grandchild, 0)
    os._exit(0)
os.waitpid(child, 0)
"""


@pytest.fixture(scope="module")
def types() -> Btf:
    if not os.path.exists(PATH):
        pytest.skip(f"this kernel has no {PATH}")
    return read_kernel_btf("/")


@pytest.fixture
def counted() -> Iterator[Map]:
    with Map(MapType.ARRAY, "counted", np.uint32, COUNT, 1) as table:
        yield table


def read_calls(counted: Map) -> int:
    return int(counted.find(0)["calls"])


def count_call(program: Assembly, counted: Map) -> None:
    program.point_into(R1, counted)
    program.move(R2, 1)
    program.add_to(Record(R1, COUNT), "calls", R2)


def write_counter(types: Btf, keeper: TaskFilter, counted: Map, hook: AnyHook) -> Assembly:
    """Write a program that counts the calls of the tasks that a filter keeps."""
    program = KernelAssembly("count_calls", types, has_typed_pointers=isinstance(hook, TypedTracepoint))
    program.read_argument(R7, R1, 1)
    program.jump_if(R7, "!=", GETPRIORITY, "done")
    program.call("get_current_task_btf" if program.has_typed_pointers else "get_current_task")
    program.move(R6, R0)
    keeper.keep(program, R6, "done")
    count_call(program, counted)
    program.label("done")
    program.leave(0)
    return program


@contextmanager
def running(*programs: tuple[Assembly, AnyHook]) -> Iterator[None]:
    with ExitStack() as stack:
        for program, hook in programs:
            stack.enter_context(attach(stack.enter_context(load(program.assemble(), hook)), hook))
        yield


@contextmanager
def held(source: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program that waits for a line before it does what it was given to do."""
    program = f"import sys\nprint('ready', flush=True)\nsys.stdin.readline()\n{source}"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"ready\n"
        yield started


def let_run(*programs: subprocess.Popen[bytes]) -> None:
    for program in programs:
        program.communicate(b"\n")
        assert program.returncode == 0


def handle(pid: int) -> ProcessHandle:
    return ProcessHandle(pid, None, read_stat("/", pid).start_ticks)


def wait_until_empty(*tables: Map) -> None:
    """Wait until the kernel has let the tasks go, which it does some time after they ended.

    What is let go while this cpu reads a map is in no record, so that the reads stand apart.
    """
    deadline = time.monotonic() + 20
    while any(len(table.read()) for table in tables) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert [len(table.read()) for table in tables] == [0] * len(tables)


@pytest.fixture(params=[RawTracepoint, TypedTracepoint])
def hook(request: pytest.FixtureRequest, types: Btf) -> AnyHook:
    """The same program at both kinds of tracepoint; Linux 5.11 gives the task that runs a type."""
    if request.param is RawTracepoint:
        return RawTracepoint("sys_enter")
    program = Assembly("ask")
    program.call("get_current_task_btf")
    program.leave(0)
    hook = TypedTracepoint("sys_enter", types)
    try:
        load(program.assemble(), hook).close()
    except MachineRefused:
        pytest.skip("this kernel has no helper that gives the task that runs a type")
    return hook


@pytest.mark.spec("KRN-5")
def test_a_process_is_followed_with_its_threads_and_what_it_starts(types: Btf, counted: Map, hook: AnyHook) -> None:
    """Its calls, a thread's, and those of a grandchild after its execve; a process that nobody named makes as many."""
    follower = Follower()
    try:
        programs: list[tuple[Assembly, AnyHook]] = [
            *follower.write_programs(types),
            (write_counter(types, follower, counted, hook), hook),
        ]
        with held(TREE) as target, held(CALL) as other, running(*programs):
            follower.add([handle(target.pid)])
            let_run(target, other)
            assert read_calls(counted) == 3 * CALLS
            wait_until_empty(follower.processes)
        assert follower.lost.read_count() == 0
    finally:
        follower.close()


@pytest.mark.spec("KRN-5")
def test_what_descends_from_a_process_already_is_followed(types: Btf, counted: Map) -> None:
    """A child that was started before anybody looked is the target's as one that comes is."""
    source = (
        "import os, sys\nread, write = os.pipe()\nchild = os.fork()\nif child == 0:\n"
        "    os.read(read, 1)\n    " + CALL.replace("\n", "\n    ") + "\n    os._exit(0)\n"
        "print('ready', flush=True)\nsys.stdin.readline()\nos.write(write, b'x')\nos.waitpid(child, 0)\n"
    )
    follower, hook = Follower(), RawTracepoint("sys_enter")
    try:
        with subprocess.Popen([sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as target:
            assert target.stdout is not None
            assert target.stdout.readline() == b"ready\n"
            counter = (write_counter(types, follower, counted, hook), hook)
            with running(*follower.write_programs(types), counter):
                follower.add([handle(target.pid)])
                let_run(target)
        assert read_calls(counted) == CALLS
    finally:
        follower.close()


@pytest.mark.spec("KRN-5")
def test_a_process_is_followed_by_records_where_no_types_are_read(counted: Map) -> None:
    """The classic pair of tracepoints says as much: each thread of a followed process stands under its number."""
    try:
        record = read_format("raw_syscalls/sys_enter")
        follower = RecordFollower()
        programs = follower.write_record_programs()
    except MachineRefused as refused:
        pytest.skip(refused.reason)
    hook = Tracepoint("raw_syscalls/sys_enter")
    program = RecordAssembly("count_records")
    program.read_record(R7, R1, record["id"])
    program.jump_if(R7, "!=", GETPRIORITY, "done")
    program.call("get_current_pid_tgid")
    program.move(R8, R0)
    follower.keep_thread(program, R8, "done")
    program.compute(R8, ">>=", 32)
    program.jump_if(R0, "!=", R8, "done")
    count_call(program, counted)
    program.label("done")
    program.leave(0)
    try:
        with held(TREE) as target, held(CALL) as other, running(*programs, (program, hook)):
            follower.add([handle(target.pid)])
            let_run(target, other)
            assert read_calls(counted) == 3 * CALLS
            wait_until_empty(follower.processes, follower.threads)
        assert follower.lost.read_count() == 0
    finally:
        follower.close()


@pytest.mark.spec("KRN-5")
def test_a_number_that_was_left_behind_is_taken_from_who_starts_under_it() -> None:
    """A record of an end may be passed over: what starts under its number next is not taken for what had it."""
    try:
        follower = RecordFollower()
        programs = follower.write_record_programs()
    except MachineRefused as refused:
        pytest.skip(refused.reason)
    most = int(Path("/proc/sys/kernel/pid_max").read_text())
    try:
        with running(*programs):
            # The kernel gives numbers out upwards, and begins again at its most.
            with subprocess.Popen(["true"]) as last:
                last.wait()
            left = {number % most for number in range(last.pid + 1, last.pid + 5_000)}
            for number in left:
                follower.processes.update((number,), (0,))
                follower.threads.update((number,), (number,))
            with held("") as started:
                assert started.pid in left
                assert follower.processes.find((started.pid,)) is None
                assert follower.threads.find((started.pid,)) is None
                assert follower.threads.find((started.pid + 2_000) % most) is not None
                let_run(started)
    finally:
        follower.close()


def test_a_process_that_finds_no_room_is_counted(types: Btf, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two are followed where one fits: the second is lost, and is said to be."""
    monkeypatch.setattr("omn_kernel.bpf.followers.MOST_PROCESSES", 1)
    follower = Follower()
    try:
        with running(*follower.write_programs(types)):
            follower.processes.update((os.getpid(),), (0,))
            subprocess.run(["true"], check=True)
        assert follower.lost.read_count() == 1
    finally:
        follower.close()


@pytest.mark.spec("KRN-5")
def test_a_thread_is_told_by_its_own_number(types: Btf, counted: Map, hook: AnyHook) -> None:
    """The first thread of a process has its number; the calls of another are not its."""
    with held(TREE) as target, running((write_counter(types, OneThread(target.pid), counted, hook), hook)):
        let_run(target)
    assert read_calls(counted) == CALLS


@pytest.mark.spec("KRN-5")
def test_a_cgroup_is_told_with_what_is_below_it(types: Btf, counted: Map, hook: AnyHook) -> None:
    """Calls from the cgroup below count, those from beside it do not, however alike the names are."""
    try:
        root = bind_cgroup_path("/", "/").unified
    except MachineRefused as refused:
        pytest.skip(refused.reason)
    if root is None:
        pytest.skip("no cgroup2 hierarchy is mounted here")
    folders = [f"{root}/omn_filter_{os.getpid()}{end}" for end in ("", "/below", "_beside")]
    made: list[str] = []
    try:
        for folder in folders:
            os.mkdir(folder)
            made.append(folder)
        place = bind_cgroup_path(folders[0].removeprefix(root), "/")
        with held(CALL) as inside, held(CALL) as below, held(CALL) as beside:
            for folder, process in zip(folders, (inside, below, beside), strict=True):
                with open(f"{folder}/cgroup.procs", "w") as file:
                    file.write(str(process.pid))
            with running((write_counter(types, find_cgroup_filter(place), counted, hook), hook)):
                let_run(inside, below, beside)
        assert read_calls(counted) == 2 * CALLS
    except PermissionError as error:
        pytest.skip(f"no cgroup can be made here: {error.strerror}")
    finally:
        for folder in reversed(made):
            os.rmdir(folder)


def test_cpus_are_told_by_the_one_that_runs(types: Btf, counted: Map, hook: AnyHook) -> None:
    """Calls on one cpu of two count."""
    cpus = sorted(os.sched_getaffinity(0))
    with running((write_counter(types, OnCpus((cpus[0],)), counted, hook), hook)):
        try:
            for cpu in {cpus[0], cpus[-1]}:
                os.sched_setaffinity(0, {cpu})
                exec(CALL)
        finally:
            os.sched_setaffinity(0, cpus)
    assert read_calls(counted) == CALLS


def make_target(kind: str, **parts: object) -> BoundTarget:
    return BoundTarget(Target(kind), kind, **parts)  # type: ignore[arg-type]  # a test names any part


def test_a_target_is_told_by_what_it_is() -> None:
    """A thread by its number, processes by the follower, cpus by theirs, the machine by leaving the idle tasks out."""
    follower = object()
    processes: Sequence[ProcessHandle] = (ProcessHandle(4711, None, 1),)
    assert find_filter(make_target("system"), None) == AnyTask()
    assert find_filter(make_target("cpu", cpus=(1,)), None) == OnCpus((1,))
    assert find_filter(make_target("tid", processes=processes, tid=4712), None) == OneThread(4712)
    assert find_filter(make_target("pid", processes=processes), follower) is follower  # type: ignore[arg-type]


def test_a_cgroup_of_no_second_version_is_refused() -> None:
    """A program tells cgroups of the one hierarchy."""
    for find in (find_cgroup_filter, open_cgroup_filter):
        with pytest.raises(MachineRefused, match="stands in no cgroup2 hierarchy"):
            find(CgroupPlace("/only", None, frozenset(), {"cpu": "/sys/fs/cgroup/cpu/only"}))
    assert isinstance(find_cgroup_filter(bind_cgroup_path("/", "/")), InCgroup)


@pytest.mark.skipif(find_tracefs("/") is None, reason="tracefs is not mounted")
def test_without_types_a_cgroup_is_told_of_the_task_that_runs_alone() -> None:
    """A program that asks for another's is refused before it is loaded; so is a folder that is no cgroup."""
    filters = open_cgroup_filter(bind_cgroup_path("/", "/"))
    with closing(filters):
        switch = RecordedAssembly("tell_switched", "sched_switch", None)
        switch.read_argument(R6, R1, 1)
        filters.keep(switch, R6, "done")
        switch.read_argument(R6, R1, 2)
        with pytest.raises(MachineRefused, match="a task that does not run"):
            filters.keep(switch, R6, "done")
    with pytest.raises(MachineRefused, match="/proc: programs cannot be told of this cgroup"):
        open_cgroup_filter(CgroupPlace("/proc", "/proc", frozenset(), {}))


VALUES = [0, 1, 2, 3, 4, 7, 8, 1023, 1024, 1025, (1 << 31) - 1, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]


def test_a_bucket_is_that_of_the_hist_emit() -> None:
    """0 for zero, k + 1 for what lies in [2^k, 2^(k+1)): of numbers of 64 bits at every edge."""
    layout = np.dtype([(f"bucket{index}", "u8") for index in range(len(VALUES))] + [("now_ns", "u8")])
    with Map(MapType.ARRAY, "buckets", np.uint32, layout, 1) as table:
        program = Assembly("buckets")
        for index, value in enumerate(VALUES):
            program.move(R7, value if value < 1 << 63 else value - (1 << 64))
            compute_bucket(program, R8, R7, R9)
            program.point_into(R6, table)
            program.set(Record(R6, layout), f"bucket{index}", R8)
        read_clock(program, R7)
        program.set(Record(R6, layout), "now_ns", R7)
        program.leave(0)
        before_ns = time.monotonic_ns()
        with running((program, RawTracepoint("sys_enter"))):
            os.getppid()
        found = table.find(0)
        assert [int(found[f"bucket{index}"]) for index in range(len(VALUES))] == [
            value.bit_length() for value in VALUES
        ]
        assert before_ns < found["now_ns"] < time.monotonic_ns()

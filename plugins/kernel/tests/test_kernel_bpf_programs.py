"""Programs on the running kernel: what they read there, what refuses them, and where they run."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from omn_kernel.bpf.assembly import Assembly, Record
from omn_kernel.bpf.attaching import AnyHook, attach
from omn_kernel.bpf.hooks import (
    Function,
    KernelProbe,
    Overflow,
    RawTracepoint,
    Tracepoint,
    TypedTracepoint,
    UserProbe,
    UserProbes,
)
from omn_kernel.bpf.loading import load
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R0, R1, R2, R6, R7, R8
from omn_kernel.bpf.rejections import ProgramRejected, parse_log
from omn_kernel.btf.fields import FieldMissing
from omn_kernel.btf.kernel import PATH, read_kernel_btf
from omn_kernel.btf.types import Btf
from omn_kernel.perf.attributes import EventAttributes, Place, Sampling
from omn_kernel.perf.events import find_event
from omn_kernel.polled import read_file
from omn_kernel.tracepoints import parse_format, parse_symbols, read_format

from omn_core.api import MachineRefused

pytestmark = pytest.mark.usefixtures("loads_programs")
SEEN = np.dtype([("runs", "u8"), ("pid", "i8"), ("tty", "u8"), ("bit", "u8"), ("comm", "S16")])
CALLS = 100
GETPPID = 110 if os.uname().machine == "x86_64" else 173


@pytest.fixture(scope="module")
def types() -> Btf:
    if not os.path.exists(PATH):
        pytest.skip(f"this kernel has no {PATH}")
    return read_kernel_btf("/")


@pytest.fixture
def seen() -> Iterator[Map]:
    with Map(MapType.ARRAY, "seen", np.uint32, SEEN, 1) as table:
        yield table


def count_own(program: Assembly, seen: Map) -> None:
    """Count the runs in this process."""
    program.call("get_current_pid_tgid")
    program.compute(R0, ">>=", 32)
    with program.when(R0, "==", os.getpid()):
        program.point_into(R1, seen)
        program.move(R2, 1)
        program.add_to(Record(R1, seen.value), "runs", R2)
    program.leave(0)


def read_runs(seen: Map) -> int:
    return int(seen.find(0)["runs"])


def run(hook: AnyHook, seen: Map) -> int:
    """Attach a program that counts its runs in this process, make some system calls, and return the count."""
    program = Assembly("count_own")
    count_own(program, seen)
    with load(program.assemble(), hook) as loaded, attach(loaded, hook):
        for _ in range(CALLS):
            os.getppid()
    counted = read_runs(seen)
    os.getppid()
    assert read_runs(seen) == counted, "a closed link runs nothing"
    return counted


@pytest.mark.parametrize("kind", [RawTracepoint, TypedTracepoint])
@pytest.mark.spec("KRN-2")
def test_fields_are_read_with_pointers_of_types_and_without(kind: type, seen: Map, types: Btf) -> None:
    """One text reads this process by its fields, through pointers and bits, whichever tracepoint it is attached to."""
    is_typed = kind is TypedTracepoint
    hook = TypedTracepoint("sched_process_exit", types) if is_typed else RawTracepoint("sched_process_exit")
    program = KernelAssembly("see_exit", types, has_typed_pointers=is_typed)
    program.read_argument(R7, R1, 0)
    program.read_field(R1, R7, "task_struct", "real_parent.tgid")
    with program.when(R1, "==", os.getpid()):
        program.point_into(R8, seen)
        record = Record(R8, seen.value)
        program.read_field(R1, R7, "task_struct", "pid")
        program.set(record, "pid", R1)
        program.read_field(R1, R7, "task_struct", "exit_code")
        program.set(record, "runs", R1)
        program.read_field(R1, R7, "task_struct", "vfork_done.done")
        program.set(record, "tty", R1)
        program.read_field(R1, R7, "task_struct", "sched_reset_on_fork")
        program.set(record, "bit", R1)
        program.copy_field(record, "comm", R7, "task_struct", "comm")
    program.leave(0)
    with load(program.assemble(), hook) as loaded, attach(loaded, hook):
        child = os.fork()
        if child == 0:
            os.sched_setscheduler(0, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
            ctypes.CDLL(None).prctl(15, b"named", 0, 0, 0)
            os._exit(3)
        os.waitpid(child, 0)
    found = seen.find(0)
    # The kernel leaves what was in the name before behind its zero byte.
    comm = bytes(found["comm"]).partition(b"\0")[0]
    assert (found["pid"], found["runs"], found["tty"], found["bit"], comm) == (child, 3 << 8, 0, 1, b"named")


@pytest.mark.spec("KRN-2")
def test_a_field_that_no_register_holds_is_refused_when_it_is_written(types: Btf, seen: Map) -> None:
    """A name has 16 bytes, and a field that this kernel has not is named with its type."""
    program = KernelAssembly("sizes", types, has_typed_pointers=True)
    with pytest.raises(ValueError, match=r"task_struct.comm has 16 bytes, and a register holds 8"):
        program.read_field(R1, R6, "task_struct", "comm")
    with pytest.raises(ValueError, match=r"task_struct.pid has 4 bytes, and comm has 16"):
        program.copy_field(Record(R8, seen.value), "comm", R6, "task_struct", "pid")
    with pytest.raises(FieldMissing, match=r"task_struct\.colour"):
        program.read_field(R1, R6, "task_struct", "colour")
    assert program.has_field("task_struct", "pid")
    assert not program.has_field("task_struct", "colour")
    assert program.get_enumerator("pid_type", "PIDTYPE_TGID") == 1


# What rejects a program ------------------------------------------------------------------------------------------


@pytest.mark.spec("KRN-2")
def test_a_rejection_names_the_instruction_and_the_line_that_wrote_it() -> None:
    """A register that was never written is read in the second instruction, by the second line after this one."""
    program = Assembly("spoilt")
    program.move(R0, 0)
    program.move(R0, R7)
    program.leave()
    with pytest.raises(ProgramRejected) as rejected:
        load(program.assemble(), RawTracepoint("sched_switch"))
    error = rejected.value
    assert (error.verdict.slot, error.verdict.text) == (1, "r0 = r7")
    assert "R7 !read_ok" in error.verdict.message
    (line,) = error.lines
    source = Path(line.path).read_text().splitlines()[line.number - 1]
    assert source.strip() == "program.move(R0, R7)"
    assert f"at instruction 1 (r0 = r7), written at {Path(__file__).name}:{line.number}: " in str(error)
    assert "processed" in error.log


@pytest.mark.parametrize(
    ("log", "message", "slot", "text"),
    [
        ("", "", None, ""),
        (
            "0: (b7) r0 = 0\n1: (bf) r0 = r9\nR9 !read_ok\nprocessed 2 insns (limit 1000000)\n",
            "R9 !read_ok",
            1,
            "r0 = r9",
        ),
        (
            "0: R1=ctx() R10=fp0\n0: (61) r0 = *(u32 *)(r1 +4)   ; R0_w=scalar()\nbad\n",
            "bad",
            0,
            "r0 = *(u32 *)(r1 +4)",
        ),
        (
            "1: (bf) r0 = r7\nR7 !read_ok\nSuggestion:\n  Initialize R7\n",
            "R7 !read_ok; Suggestion:; Initialize R7",
            1,
            "r0 = r7",
        ),
        ("back-edge from insn 5 to 3\n", "back-edge from insn 5 to 3", 5, ""),
        ("invalid btf", "invalid btf", None, ""),
    ],
)
def test_a_log_ends_with_the_instruction_and_what_is_wrong(log: str, message: str, slot: int | None, text: str) -> None:
    """Logs of several releases; what is said before any instruction is followed may name one itself."""
    verdict = parse_log(log)
    assert (verdict.message, verdict.slot, verdict.text) == (message, slot, text)


def test_a_log_longer_than_the_first_room_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn of a long program is a line; the end of the log is what matters."""
    monkeypatch.setattr("omn_kernel.bpf.loading._LOG_BYTES", 256)
    program = Assembly("long")
    for _ in range(50):
        program.move(R0, 1)
    program.move(R0, R7)
    program.leave()
    with pytest.raises(ProgramRejected) as rejected:
        load(program.assemble(), RawTracepoint("sched_switch"))
    assert rejected.value.verdict.slot == 50


def test_what_is_not_there_to_attach_to_is_the_machines_refusal(types: Btf) -> None:
    """A tracepoint and a function by names that no kernel has."""
    program = Assembly("nowhere")
    program.leave(0)
    with pytest.raises(FieldMissing, match="no such tracepoint"):
        load(program.assemble(), TypedTracepoint("colour_changed", types))
    with pytest.raises(FieldMissing, match="no such function"):
        load(program.assemble(), Function("colour_change", types))
    hook = RawTracepoint("colour_changed")
    with load(program.assemble(), hook) as loaded, pytest.raises(MachineRefused, match="raw tracepoint colour_changed"):
        attach(loaded, hook)


# Where programs run ----------------------------------------------------------------------------------------------


@pytest.mark.spec("KRN-3")
def test_a_program_runs_at_a_raw_and_at_a_typed_tracepoint(seen: Map, types: Btf) -> None:
    """Every system call is one run at least, and none once the link is closed."""
    assert run(RawTracepoint("sys_enter"), seen) >= CALLS
    before = read_runs(seen)
    assert run(TypedTracepoint("sys_enter", types), seen) >= before + CALLS


@pytest.mark.spec("KRN-3")
def test_a_classic_tracepoint_hands_over_its_record(seen: Map, types: Btf) -> None:
    """The fields stand where the format file says, on whichever cpu: the number of each call is read."""
    try:
        record = read_format("raw_syscalls/sys_enter")
    except MachineRefused as refused:
        pytest.skip(refused.reason)
    program = KernelAssembly("record", types, has_typed_pointers=False)
    program.move(R6, R1)
    program.read_record(R7, R6, record["id"])
    program.point_into(R8, seen)
    with program.when(R7, "==", GETPPID):
        count_own(program, seen)
    program.leave(0)
    hook = Tracepoint("raw_syscalls/sys_enter")
    with load(program.assemble(), hook) as loaded, attach(loaded, hook):
        for cpu in os.sched_getaffinity(0):
            os.sched_setaffinity(0, {cpu})
            for _ in range(CALLS):
                os.getppid()
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    assert read_runs(seen) >= CALLS * len(os.sched_getaffinity(0))


def test_a_format_is_read_by_its_fields_names() -> None:
    """Arrays and pointers are named by what they are called; what is no field is passed over."""
    content = (
        b"name: sched_switch\nID: 1\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n"
        b"\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"
        b"\tfield:__u8 daddr[4];\toffset:35;\tsize:4;\tsigned:0;\n"
        b"\tfield:const char * name;\toffset:40;\tsize:8;\tsigned:0;\n"
        b'\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\nprint fmt: "field:%s;", REC->comm\n'
    )
    fields = parse_format(content)
    assert {name: (one.offset, one.size, one.is_signed) for name, one in fields.items()} == {
        "common_type": (0, 2, False),
        "prev_comm": (8, 16, False),
        "daddr": (35, 4, False),
        "name": (40, 8, False),
        "prev_pid": (24, 4, True),
    }


def test_numbers_of_a_field_have_the_names_that_its_format_gives_them() -> None:
    """Those of that field alone; of one that is printed as it is there are none."""
    content = (
        b'print fmt: "%s %s", __print_symbolic(REC->reason, { 2, "NOT_SPECIFIED" }, { 3, "NO_SOCKET" }), '
        b'__print_symbolic(REC->state, { 4, "OTHER" }), REC->location\n'
    )
    assert parse_symbols(content, "reason") == {2: "NOT_SPECIFIED", 3: "NO_SOCKET"}
    assert parse_symbols(content, "location") == {}


def find_getppid() -> tuple[str, int]:
    """Find the C library of this process, and where getppid begins in it."""
    address = ctypes.cast(ctypes.CDLL(None).getppid, ctypes.c_void_p).value or 0
    for line in read_file("/", "/proc/self/maps").decode().splitlines():
        span, _, offset, *_, path = line.split()
        start, end = (int(part, 16) for part in span.split("-"))
        if start <= address < end:
            return path, address - start + int(offset, 16)
    raise AssertionError("getppid is mapped from no file")


@pytest.mark.spec("KRN-3")
@pytest.mark.parametrize("is_return", [False, True])
def test_a_program_runs_at_a_function_of_a_program(seen: Map, is_return: bool) -> None:
    """Each call of getppid in the C library, where it is entered and where it returns, in this process alone."""
    path, offset = find_getppid()
    assert run(UserProbe(path, offset, os.getpid(), is_return=is_return), seen) == CALLS
    before = read_runs(seen)
    try:
        assert run(UserProbes(path, [offset], is_return=is_return), seen) == before + CALLS
    except MachineRefused as refused:
        pytest.skip(refused.reason)


@pytest.mark.spec("KRN-3")
def test_a_program_runs_at_a_kernels_function_or_is_refused_by_its_name(seen: Map, types: Btf) -> None:
    """By an entry, an exit or a kprobe: where the kernel lets none be attached, the refusal says which."""
    for hook in (
        Function("__x64_sys_getppid", types),
        Function("__x64_sys_getppid", types, is_exit=True),
        KernelProbe("__x64_sys_getppid"),
        KernelProbe("__x64_sys_getppid", is_return=True),
    ):
        before = read_runs(seen)
        try:
            assert run(hook, seen) == before + CALLS
        except MachineRefused as refused:
            assert "__x64_sys_getppid" in refused.reason


@pytest.mark.spec("KRN-3")
def test_a_program_runs_at_each_sample_of_a_perf_event(seen: Map) -> None:
    """A page fault is a sample of one: as many runs as new pages are touched."""
    event = find_event("sw", "page-faults")
    assert event is not None
    attributes = EventAttributes(event.kind, event.config, sampling=Sampling(period=1))
    hook = Overflow(attributes, Place(pid=os.getpid()))
    program = Assembly("faults")
    count_own(program, seen)
    with mmap.mmap(-1, 64 * mmap.PAGESIZE) as pages:
        with load(program.assemble(), hook) as loaded, attach(loaded, hook):
            for page in range(64):
                pages[page * mmap.PAGESIZE] = 1
        assert read_runs(seen) >= 64


# The kernel's account --------------------------------------------------------------------------------------------


@pytest.mark.spec("CST-2")
def test_times_are_unknown_while_the_kernel_does_not_keep_them(seen: Map) -> None:
    """What was not timed is no zero; what was passed over is counted anyway, by kernels that count it."""
    timed = read_file("/", "/proc/sys/kernel/bpf_stats_enabled").strip() == b"1"
    program = Assembly("account")
    count_own(program, seen)
    hook = RawTracepoint("sys_enter")
    with load(program.assemble(), hook) as loaded:
        with attach(loaded, hook):
            os.getppid()
        account = loaded.read_account()
    assert (account.run_time_ns is None, account.runs is None) == (not timed, not timed)
    assert account.skipped in (0, None), "Linux 5.12 first counts them"

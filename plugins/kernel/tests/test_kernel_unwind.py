"""Walking copied stacks: held to the calls and returns of a program that traces itself, and to bytes made by hand."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import compiled
import numpy as np
import omn_kernel
import pytest
from compiled import compile_c, run_tool
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from omn_kernel.elf.image import read_image
from omn_kernel.elf.source import File, Memory
from omn_kernel.symbols.mappings import Mapping, parse_mappings
from omn_kernel.symbols.spaces import AddressSpaces
from omn_kernel.symbols.symboliser import Symboliser
from omn_kernel.unwind.copied import REGISTERS, CopiedStacks
from omn_kernel.unwind.ranges import FrameTables
from omn_kernel.unwind.tables import FrameTable, index_frames, read_frame_table
from omn_kernel.unwind.walking import Chains, CodeRange, Ended, Found, Walker
from stepped import LIBRARY, PROGRAM, Step, iter_callers, read_steps

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="stacks are walked on x86-64 alone")

RSP, RIP = 7, 16


class Traced:
    """The program that traced itself: its steps, its memory, and itself while it waits."""

    def __init__(self, process: subprocess.Popen[str], steps: Path) -> None:
        self.process = process
        assert process.stdout is not None
        self.restorer = 0
        for line in process.stdout:
            word, _, value = line.rpartition(" ")
            if word == "restorer":
                self.restorer = int(value, 16)
            if word == "ready":
                break
        self.steps = read_steps(steps)
        self.mappings = parse_mappings(Path(f"/proc/{process.pid}/maps").read_bytes())

    def make_ranges(self) -> list[CodeRange]:
        tables = FrameTables()
        ranges = tables.make_ranges(self.mappings, self.process.pid, True)
        assert not tables.notes
        return ranges

    def name(self, addresses: list[int]) -> list[str]:
        symboliser = Symboliser(AddressSpaces())
        now = np.full(len(addresses), time.clock_gettime_ns(time.CLOCK_MONOTONIC), np.int64)
        frames = symboliser.resolve(self.process.pid, np.array(addresses, np.uint64), now)
        return [symboliser.symbols[one].label for one in frames.symbol.tolist()]


@contextlib.contextmanager
def tracing(folder: Path, program: str = PROGRAM, *flags: str) -> Iterator[Traced]:
    shared = [flag for flag in flags if flag != "-no-pie"]
    library = compile_c(folder, "libback.so", LIBRARY, "-shared", "-fPIC", *shared)
    path = compile_c(folder, "stepped", program, "-Wl,-z,lazy", *flags, str(library), f"-Wl,-rpath,{folder}")
    output = folder / "steps"
    with subprocess.Popen(
        ["sh", "-c", 'exec "$0" 3>"$1"', str(path), str(output)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Traced(process, output)
        finally:
            assert process.stdin is not None
            process.stdin.close()


def walk(ranges: list[CodeRange], steps: list[Step], deepest: int = 1024) -> Chains:
    registers = np.array([step.registers for step in steps], np.uint64)
    offsets = np.cumsum([0, *(len(step.stack) for step in steps)]).astype(np.uint64)
    return Walker(ranges).walk(copy(registers, b"".join(step.stack for step in steps), offsets), deepest=deepest)


def copy(registers: NDArray[np.uint64], stacks: bytes, offsets: NDArray[np.uint64]) -> CopiedStacks:
    """Make copies of stacks that lie end to end."""
    return CopiedStacks(registers, np.frombuffer(stacks, np.uint8), offsets[:-1], offsets[1:])


@pytest.mark.spec("STK-2")
@pytest.mark.parametrize(
    "flags",
    [("-O2", "-fomit-frame-pointer"), ("-O0",), ("-O2", "-fcf-protection=none", "-no-pie"), ("-Os",)],
    ids=" ".join,
)
def test_every_instruction_of_a_program_has_the_callers_that_its_calls_made(
    flags: tuple[str, ...], tmp_path: Path
) -> None:
    """Frame for frame, down to the outermost: prologues and epilogues, alloca, recursion, a callback out of libc and of
    a shared library, linkage entries bound lazily by the loader, the vdso, and a signal's handler over what it
    interrupted."""
    with tracing(tmp_path, PROGRAM, *flags) as traced:
        chains = walk(traced.make_ranges(), traced.steps)
        assert set(chains.reasons.tolist()) == {Ended.ROOT}
        base = chains.get_chain(0).tolist()[1:]
        called = traced.name([one - 1 for one in base])
        assert called[0] == "main"
        assert called[-1] == "_start"
        wrong = [
            number
            for number, callers in enumerate(iter_callers(traced.steps, base, traced.restorer))
            if chains.get_chain(number).tolist()[1:] != callers
        ]
        assert not wrong
        seen = set(traced.name(np.unique(chains.compute_call_sites()).tolist()))
    assert {"deep", "twice", "grown", "compare", "through", "called_back", "on_signal", "getpid@plt"} <= seen
    assert "__vdso_clock_gettime" in seen


@pytest.mark.spec("STK-2")
def test_a_signals_frame_tells_where_it_interrupted_exactly(tmp_path: Path) -> None:
    """The address of the next instruction, where every other caller's is one after its call."""
    with tracing(tmp_path, PROGRAM, "-O2") as traced:
        chains = walk(traced.make_ranges(), traced.steps)
        starts = np.concatenate([[0], chains.ends[:-1]])
        exact = np.flatnonzero(chains.is_exact)
        assert set(starts.tolist()) <= set(exact.tolist())
        inner = [one for one in exact.tolist() if one not in set(starts.tolist())]
        restorers = [one for one in inner if chains.addresses[one] == traced.restorer]
        assert restorers
        assert set(inner) - set(restorers) == {one + 1 for one in restorers}
        sites = chains.compute_call_sites()
        assert (sites[exact] == chains.addresses[exact]).all()
        assert (sites + 1 >= chains.addresses).all()


AT_THE_BOTTOM = "if (n) return deep(n - 1) * 3 + twice(n); step_on(); step_off(); return 1;"
DEEP = (
    PROGRAM.replace("work(6)", "work(5000)")
    .replace("return n ? deep(n - 1) * 3 + twice(n) : 1;", AT_THE_BOTTOM)
    .replace("    step_on();\n    sum = deep(n)", "    sum = deep(n)")
)


@pytest.mark.spec("STK-2")
def test_a_deep_recursion_is_walked_whole_and_cut_where_it_is_asked_to_be_or_the_copy_ends(tmp_path: Path) -> None:
    """5,000 calls of one function; each cut says which it was, and what is before it is the same."""
    with tracing(tmp_path, DEEP, "-O1") as traced:
        step, ranges = traced.steps[0], traced.make_ranges()
        whole = walk(ranges, [step], deepest=8192)
        assert whole.reasons.tolist() == [Ended.ROOT]
        names = traced.name(whole.compute_call_sites().tolist())
        assert names.count("deep") == 5001
        assert names[-1] == "_start"
        cut = walk(ranges, [step], deepest=1024)
        assert (cut.reasons.tolist(), len(cut.addresses)) == ([Ended.TOO_DEEP], 1024)
        assert cut.addresses.tolist() == whole.addresses[:1024].tolist()
        copied = walk(ranges, [Step(step.registers, step.stack[:4096])], deepest=8192)
        assert copied.reasons.tolist() == [Ended.STACK_END]
        assert 10 < len(copied.addresses) < len(whole.addresses)
        assert copied.addresses.tolist() == whole.addresses[: len(copied.addresses)].tolist()


@pytest.mark.spec("STK-2", "STK-7")
def test_a_walk_ends_in_code_without_unwind_information(tmp_path: Path) -> None:
    """It keeps the frame there and splices nothing: what called that code is not known."""
    with tracing(tmp_path, PROGRAM, "-O2") as traced:
        ranges = traced.make_ranges()
        library = next(one for one in traced.mappings if "libback" in one.path)
        blind = [CodeRange(one.start, one.end, 0, None) if one.start == library.start else one for one in ranges]
        full, partial = walk(ranges, traced.steps), walk(blind, traced.steps)
        ended = 0
        for number in range(len(traced.steps)):
            chain = full.get_chain(number).tolist()
            inside = [at for at, one in enumerate(chain) if library.start <= one < library.end]
            expected = chain[: inside[0] + 1] if inside else chain
            assert partial.get_chain(number).tolist() == expected
            assert partial.reasons[number] == (Ended.NO_TABLE if inside else Ended.ROOT)
            ended += bool(inside)
        assert ended


@pytest.mark.spec("STK-2")
@pytest.mark.parametrize("compressed", [(), ("-Wl,--compress-debug-sections=zlib",)], ids=["plain", "compressed"])
def test_code_that_only_a_debug_frame_knows_is_walked_by_it(compressed: tuple[str, ...], tmp_path: Path) -> None:
    """A program built without .eh_frame and with what its debugger needs: every caller, as with the other; and where
    both know a function, as of the C library, nothing changes."""
    flags = ("-O2", "-g", "-fno-asynchronous-unwind-tables", "-fno-exceptions", *compressed)
    with tracing(tmp_path, PROGRAM, *flags) as traced:
        with File(str(tmp_path / "stepped")) as file:
            table = read_frame_table(read_image(file))
        assert table is not None
        assert (table.entries >= table.debug_at).sum() > 5
        chains = walk(traced.make_ranges(), traced.steps)
        base = chains.get_chain(0).tolist()[1:]
        assert traced.name([one - 1 for one in base])[0] == "main"
        wrong = [
            number
            for number, callers in enumerate(iter_callers(traced.steps, base, traced.restorer))
            if chains.get_chain(number).tolist()[1:] != callers
        ]
        assert not wrong


@pytest.mark.spec("STK-2", "STK-3")
def test_a_stripped_object_is_walked_by_what_its_debug_file_knows(tmp_path: Path) -> None:
    """A library without .eh_frame of its own, and its .debug_frame set apart in the file that its link names."""
    flags = ("-O2", "-g", "-fno-asynchronous-unwind-tables", "-fno-exceptions", "-shared", "-fPIC")
    path = compile_c(tmp_path, "called.so", LIBRARY, *flags)
    with File(str(path)) as file:
        whole = read_frame_table(read_image(file))
    run_tool("objcopy", "--only-keep-debug", str(path), f"{path}.debug")
    run_tool("strip", str(path))
    run_tool("objcopy", f"--add-gnu-debuglink={path}.debug", str(path))
    tables = {}
    for roots in ((), ("",)):
        with File(str(path)) as file:
            tables[roots] = read_frame_table(read_image(file), str(path), roots)
    alone, both = tables[()], tables[("",)]
    assert whole is not None
    assert alone is not None
    assert both is not None
    assert len(alone.starts) < len(whole.starts)
    assert (both.starts.tolist(), both.ends.tolist()) == (whole.starts.tolist(), whole.ends.tolist())
    assert both.content[both.debug_at :] == whole.content[whole.debug_at :]


def find_libc() -> str:
    return next(one.path for one in parse_mappings(Path("/proc/self/maps").read_bytes()) if "libc.so" in one.path)


@pytest.mark.spec("STK-2")
def test_the_entries_of_a_library_are_those_that_readelf_lists() -> None:
    """Their code's first address and its end, all of them."""
    with File(find_libc()) as file:
        table = read_frame_table(read_image(file))
    assert table is not None
    text = run_tool("readelf", "--debug-dump=frames,no-follow-links", find_libc())
    truth = sorted((int(a, 16), int(b, 16)) for a, b in re.findall(r"FDE .* pc=([0-9a-f]+)\.\.([0-9a-f]+)", text))
    found = sorted(zip(table.starts.tolist(), table.ends.tolist(), strict=True))
    assert found == [one for one in truth if one[0] < one[1]]


@pytest.mark.spec("STK-2", "STK-5")
def test_a_file_without_a_section_table_is_read_through_its_segments() -> None:
    """The header of the index says where the information is."""
    content = bytearray(Path(find_libc()).read_bytes())
    whole = read_frame_table(read_image(Memory(bytes(content))))
    struct.pack_into("<Q", content, 40, 0)
    struct.pack_into("<HH", content, 60, 0, 0)
    bare = read_frame_table(read_image(Memory(bytes(content))))
    assert whole is not None
    assert bare is not None
    assert bare.starts.tolist() == whole.starts.tolist()
    assert bare.address == whole.address


def uleb(value: int) -> bytes:
    content = b""
    while True:
        value, low = value >> 7, value & 0x7F
        content += bytes([low | (0x80 if value else 0)])
        if not value:
            return content


CODE, SIZE = 0x1000, 0x100


def make_table(instructions: bytes) -> FrameTable:
    """Make unwind information of one function. Its first rules: the frame is rsp + 8, the return address under it."""
    common = struct.pack("<I", 0) + b"\x01zR\0\x01\x78\x10\x01\x00" + b"\x0c\x07\x08\x90\x01"
    entry = struct.pack("<QQ", CODE, SIZE) + b"\0" + instructions
    first = struct.pack("<I", len(common)) + common
    second = struct.pack("<II", len(entry) + 4, len(first) + 4) + entry
    return index_frames(first + second + struct.pack("<I", 0), 0)


def walk_made(instructions: bytes, stack: bytes = b"", at: int = CODE + 0x20, **registers: int) -> Chains:
    """Walk one sample in that function, rsp at 0x7000, with some registers set by number (r3=...)."""
    row = np.zeros((1, REGISTERS), np.uint64)
    row[0, RSP], row[0, RIP] = 0x7000, at
    for name, value in registers.items():
        row[0, int(name[1:])] = value
    walker = Walker([CodeRange(CODE, CODE + SIZE, 0, make_table(instructions))])
    return walker.walk(copy(row, stack, np.array([0, len(stack)], np.uint64)))


def evaluate(expression: bytes, stack: bytes = b"", **registers: int) -> int | Ended:
    """Evaluate an expression, as the rule that is the return address's value itself."""
    chains = walk_made(b"\x16\x10" + uleb(len(expression)) + expression, stack, **registers)
    return int(chains.addresses[1]) if len(chains.addresses) > 1 else Ended(int(chains.reasons[0]))


MASK = (1 << 64) - 1


@pytest.mark.spec("STK-2")
@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (b"\x03" + (0x123456789A).to_bytes(8, "little"), 0x123456789A),
        (b"\x08\xff", 0xFF),
        (b"\x09\xff", MASK),
        (b"\x0a\x34\x12", 0x1234),
        (b"\x0b\xfe\xff", MASK - 1),
        (b"\x0c\x78\x56\x34\x12", 0x12345678),
        (b"\x0d\xff\xff\xff\xff", MASK),
        (b"\x0e" + b"\xff" * 8, MASK),
        (b"\x10\x80\x01", 128),
        (b"\x11\x7f", MASK),
        (b"\x35\x12\x22", 10),  # lit5 dup plus
        (b"\x35\x36\x13", 5),  # drop
        (b"\x35\x36\x14", 5),  # over
        (b"\x35\x36\x37\x15\x02", 5),  # pick
        (b"\x35\x36\x16\x1c", 1),  # swap minus
        (b"\x35\x36\x37\x17\x1c\x1c", 8),  # 5 6 7 rot is 7 5 6, and 7 - (5 - 6)
        (b"\x09\xfb\x19", 5),  # abs
        (b"\x3f\x35\x1a", 15 & 5),
        (b"\x09\xf8\x32\x1b", (-4) & MASK),  # -8 / 2
        (b"\x3f\x34\x1d", 15 % 4),
        (b"\x35\x36\x1e", 30),
        (b"\x35\x1f", (-5) & MASK),
        (b"\x35\x20", ~5 & MASK),
        (b"\x38\x31\x21", 9),
        (b"\x35\x23\x80\x01", 133),
        (b"\x35\x34\x24", 80),
        (b"\x09\xf0\x34\x25", (-16 & MASK) >> 4),
        (b"\x09\xf0\x34\x26", MASK),
        (b"\x3f\x35\x27", 10),
        (b"\x35\x35\x29\x31\x22", 2),
        (b"\x09\xff\x31\x2d\x31\x22", 2),  # -1 < 1, signed
        (b"\x09\xff\x31\x2a\x31\x22", 1),
        (b"\x31\x28\x01\x00\x13\x35", 5),  # a branch that is taken steps over what would fail
        (b"\x35\x2f\x01\x00\x13\x31\x22", 6),  # skip
        (b"\x73\x10", 0x310),  # breg3 + 16
        (b"\x92\x03\x7f", 0x2FF),  # bregx
        (b"\x77\x08\x06", 0x2222),  # breg7 + 8, deref
        (b"\x77\x08\x94\x01", 0x22),
        (b"\x96\x35", 5),
    ],
    ids=lambda one: one.hex() if isinstance(one, bytes) else "",
)
def test_an_expression_has_the_value_that_dwarf_gives_it(expression: bytes, value: int) -> None:
    """Every operation of DWARF 5's section 2.5 that unwind information is made of. The frame's address is under it."""
    stack = struct.pack("<QQ", 0x1111, 0x2222)
    assert evaluate(expression, stack, r3=0x300) == value


@pytest.mark.spec("STK-2", "SEC-4")
@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        (b"\x13\x13", Ended.BAD_TABLE),  # drops more than there is
        (b"\x35\x30\x1b", Ended.BAD_TABLE),  # divides by zero
        (b"\x0e\x01", Ended.BAD_TABLE),  # cut short
        (b"\xff", Ended.BAD_TABLE),  # no operation
        (b"\x2f\xfd\xff", Ended.BAD_TABLE),  # jumps to itself for ever
        (b"\x2f\x00\x80", Ended.BAD_TABLE),  # jumps out of the expression
        (b"\x35" * 70, Ended.BAD_TABLE),  # more than the stack holds
        (b"\x08\x08\x06", Ended.STACK_END),  # reads what was not copied
        (b"\x92\x80\x80\x01\x00", Ended.BAD_TABLE),  # no such register
    ],
    ids=lambda one: one.hex()[:12] if isinstance(one, bytes) else "",
)
def test_an_expression_that_cannot_be_followed_ends_the_walk(expression: bytes, reason: Ended) -> None:
    """With the reason, and in bounded time."""
    assert evaluate(expression) is reason


RETURN = 0xABCDEF
RETURN_AT = CODE + 0x81


@pytest.mark.spec("STK-2")
@pytest.mark.parametrize(
    ("instructions", "slot"),
    [
        (b"", 0),
        (b"\x0e\x18", 2),  # def_cfa_offset 24
        (b"\x48\x0e\x18", 2),  # advance_loc 8, in force
        (b"\x60\x0e\x18\x41\x0e\x80\x01", 2),  # advance_loc 0x20 is in force at 0x20, one more is not
        (b"\x02\x08\x0e\x18", 2),  # advance_loc1
        (b"\x03\x08\x00\x0e\x18", 2),
        (b"\x04\x08\x00\x00\x00\x0e\x18", 2),
        (b"\x01" + (CODE + 8).to_bytes(8, "little") + b"\x0e\x18", 2),  # set_loc
        (b"\x0c\x03\x18", 2),  # def_cfa rbx
        (b"\x0d\x03\x0e\x18", 2),  # def_cfa_register
        (b"\x12\x03\x7d", 2),  # def_cfa_sf: -3 * -8
        (b"\x13\x7d", 2),
        (b"\x0f\x02\x77\x18", 2),  # def_cfa_expression
        (b"\x0a\x0e\x30\x0b\x0e\x18", 2),  # remember, change, restore
        (b"\x0e\x18\x90\x02\xd0", 2),  # offset, then restored to the first rule
        (b"\x0e\x18\x90\x02\x06\x10", 2),
        (b"\x05\x10\x02\x0e\x20", 2),  # offset_extended
        (b"\x11\x10\x02\x0e\x20", 2),
        (b"\x0e\x10\x2f\x10\x01", 3),  # GNU_negative_offset_extended: 8 above the frame
        (b"\x10\x10\x02\x77\x10", 2),  # expression
        (b"\x2e\x10\x0e\x18", 2),  # GNU_args_size says nothing of rules
        (b"\x05\x80\x01\x01\x0e\x18", 2),  # a vector register has no part in it
    ],
    ids=lambda one: one.hex() if isinstance(one, bytes) else "",
)
def test_an_instruction_of_the_table_does_what_dwarf_says(instructions: bytes, slot: int) -> None:
    """The return address is read from the slot that the rules in force there lead to."""
    stack = b"".join(struct.pack("<Q", RETURN if at == slot else 0x5555) for at in range(8))
    chains = walk_made(instructions, stack, r3=0x7000)
    assert chains.addresses.tolist() == [CODE + 0x20, RETURN]
    assert chains.reasons.tolist() == [Ended.NO_TABLE]


@pytest.mark.spec("STK-2")
def test_where_a_walk_ends_is_told(tmp_path: Path) -> None:
    """At a frame that says it has no caller, at a return to nothing, and where no rule says how to go on."""
    assert walk_made(b"\x07\x10").reasons.tolist() == [Ended.ROOT]
    assert walk_made(b"", bytes(64)).reasons.tolist() == [Ended.ROOT]
    assert walk_made(b"\x08\x10", bytes(64)).reasons.tolist() == [Ended.BAD_TABLE]
    assert walk_made(b"\x0b", bytes(64)).reasons.tolist() == [Ended.BAD_TABLE]
    assert walk_made(b"").reasons.tolist() == [Ended.STACK_END]
    assert walk_made(b"", at=CODE + SIZE).reasons.tolist() == [Ended.NO_TABLE]
    assert walk_made(b"\x3c", bytes(64)).reasons.tolist() == [Ended.BAD_TABLE]


@pytest.mark.spec("STK-2")
def test_a_register_that_was_popped_already_is_the_callers(tmp_path: Path) -> None:
    """In an epilogue its rule still points at the slot, which is under the stack pointer and was not copied."""
    frame = struct.pack("<QQQQ", CODE + 0x41, 0, 0, RETURN)
    # At 0x20 rbx has been popped: rsp + 8, rbx "at" cfa - 16. At 0x40 the frame is what rbx says, and 8 more.
    instructions = b"\x83\x02" + b"\x60" + b"\x60" + b"\x0c\x03\x08"
    chains = walk_made(instructions, frame, r3=0x7018)
    assert chains.addresses.tolist() == [CODE + 0x20, CODE + 0x41, RETURN]


@pytest.mark.spec("STK-2")
def test_the_entry_of_an_object_has_no_caller() -> None:
    """Where the kernel begins to run it there is nothing to return to, and its code need not say so."""
    rows = np.zeros((2, REGISTERS), np.uint64)
    rows[:, RIP] = CODE + 0x20, CODE + 0x80
    ranges = [CodeRange(CODE, CODE + SIZE, 0, None, CODE + 0x10)]
    chains = Walker(ranges).walk(copy(rows, b"", np.zeros(3, np.uint64)))
    assert chains.reasons.tolist() == [Ended.ROOT, Ended.NO_TABLE]


@pytest.mark.spec("STK-7")
@pytest.mark.parametrize(
    ("instructions", "stack", "pointer", "found"),
    [
        (b"", [RETURN_AT], 0x9000, Found.FRAMELESS),
        (b"\x0e\x10\x86\x02", [0x9000, RETURN_AT], 0x9000, Found.FRAMELESS),  # pushed, and not set yet
        (b"\x0e\x10\x86\x02", [0x9000, RETURN_AT], 0x1234, Found.CLOBBERED),  # pushed, and used for something else
        (b"\x0e\x10\x86\x02\x0d\x06", [0x9000, RETURN_AT], 0x7000, Found.FRAMED),
        (b"\x0f\x04\x76\x78\x06\x22", [0x7010], 0x7000, Found.UNKNOWN),  # what it reads was not copied
        (b"", [0x99999999], 0x9000, Found.UNKNOWN),  # no code is there
        (b"", [], 0x9000, Found.UNKNOWN),
    ],
    ids=["nothing pushed", "pushed", "clobbered", "framed", "not copied", "no code", "no stack"],
)
def test_the_caller_of_where_a_sample_was_taken_is_found_by_the_codes_own_rule(
    instructions: bytes, stack: list[int], pointer: int, found: Found
) -> None:
    """And whether a walk by frame pointers finds it: by what the register holds, against what the caller's did."""
    row = np.zeros((1, REGISTERS), np.uint64)
    row[0, [6, RSP, RIP]] = pointer, 0x7000, CODE + 0x20
    content = struct.pack(f"<{len(stack)}Q", *stack)
    walker = Walker([CodeRange(CODE, CODE + SIZE, 0, make_table(instructions))])
    callers = walker.find_callers(copy(row, content, np.array([0, len(content)], np.uint64)))
    assert callers.found.tolist() == [found]
    assert callers.addresses.tolist() == [0 if found is Found.UNKNOWN else RETURN_AT]


def test_offsets_that_are_not_the_stacks_are_refused() -> None:
    """Too few, backwards, and past the end."""
    walker = Walker([])
    rows = np.zeros((1, REGISTERS), np.uint64)
    for offsets in ([0], [0, 9], [5, 3]):
        with pytest.raises(ValueError, match="are not those of"):
            walker.walk(copy(rows, b"12345678", np.array(offsets, np.uint64)))
    empty = walker.walk(copy(np.empty((0, REGISTERS), np.uint64), b"", np.array([0], np.uint64)))
    assert (len(empty.addresses), len(empty.ends)) == (0, 0)


@pytest.fixture(scope="module")
def libc_frames() -> tuple[bytes, int]:
    with File(find_libc()) as file:
        table = read_frame_table(read_image(file))
    assert table is not None
    return table.content[:20_000], table.address


@pytest.mark.spec("SEC-4")
@settings(max_examples=300)
@given(data=st.data())
def test_damaged_tables_and_any_stack_end_in_a_reason(libc_frames: tuple[bytes, int], data: st.DataObject) -> None:
    """Bytes overwritten anywhere, registers and stacks of anything: no more addresses than asked for, and a reason."""
    content = bytearray(libc_frames[0])
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=60)):
        content[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.none(), st.integers(0, len(content))))
    table = index_frames(bytes(content[:cut]), libc_frames[1])
    stack = data.draw(st.binary(max_size=200)) + (
        b"".join(struct.pack("<Q", one) for one in table.starts[:20].tolist())
    )
    rows = np.zeros((max(len(table.starts), 1), REGISTERS), np.uint64)
    rows[:, RSP] = data.draw(st.sampled_from((0, 0x7000, (1 << 64) - 100)))
    rows[: len(table.starts), RIP] = table.starts + np.uint64(data.draw(st.integers(0, 40)))
    walker = Walker([CodeRange(0, (1 << 64) - 1, 0, table)])
    stacks = stack * len(rows)
    offsets = np.arange(len(rows) + 1, dtype=np.uint64) * np.uint64(len(stack))
    chains = walker.walk(copy(rows, stacks, offsets), deepest=64)
    assert len(chains.addresses) <= 64 * len(rows)
    assert set(chains.reasons.tolist()) <= {int(one) for one in Ended}


@pytest.mark.spec("SEC-4")
def test_damaged_tables_touch_no_byte_that_is_not_theirs(tmp_path: Path) -> None:
    """The native code, built with the address and undefined-behaviour sanitizers, over ten thousand walks."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed here")
    native = Path(omn_kernel.__file__).parent / "native"
    harness = Path(compiled.__file__).parent / "unwind_harness.c"
    with File(find_libc()) as file:
        table = read_frame_table(read_image(file))
    assert table is not None
    flags = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{native}"]
    command = ["gcc", *flags, "-o", str(tmp_path / "harness"), str(harness), *map(str, native.glob("unwind*.c"))]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode:
        assert "cannot find" in built.stderr, built.stderr
        pytest.skip("the sanitizers' libraries are not installed here")
    (tmp_path / "table").write_bytes(table.content)
    done = subprocess.run(
        [str(tmp_path / "harness"), str(tmp_path / "table"), f"{table.address:x}", "500"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ended = [int(one) for one in done.stdout.split()]
    assert sum(ended) > 1000
    assert all(ended[one] for one in (Ended.STACK_END, Ended.NO_TABLE, Ended.BAD_TABLE))


@pytest.mark.spec("STK-5")
def test_a_file_that_was_written_anew_in_place_unwinds_nothing_of_what_ran_before(tmp_path: Path) -> None:
    """Of one inode and without a build id: what was mapped before the writing has no table, what was after has one."""
    path = compile_c(tmp_path, "program", "int main(void) { return 0; }", "-O1", "-Wl,--build-id=none")
    status = path.stat()
    device = os.major(status.st_dev), os.minor(status.st_dev)
    ahead_ns = time.clock_gettime_ns(time.CLOCK_REALTIME) - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    written_ns = min(status.st_mtime_ns, status.st_ctime_ns) - ahead_ns
    later, earlier = (
        Mapping(0x10000, 0x20000, 0, str(path), status.st_ino, None, device, written_ns + second * 1_000_000_000)
        for second in (1, -1)
    )
    tables = FrameTables()
    ranges = tables.make_ranges([later, earlier], 1 << 22, is_living=False)
    assert [one.table is not None for one in ranges] == [True, False]
    assert [one.table for one in FrameTables().make_ranges([earlier], 1 << 22, is_living=False)] == [None]

"""Programs as bytes: held to encodings that are written down elsewhere, and to what the kernel reads in them."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from omn_kernel.bpf.assembly import Assembly, Record
from omn_kernel.bpf.encoding import CONDITIONS, OPERATIONS
from omn_kernel.bpf.hooks import RawTracepoint
from omn_kernel.bpf.loading import load
from omn_kernel.bpf.registers import R0, R1, R2, R3, R9, R10
from omn_kernel.bpf.rejections import ProgramRejected
from omn_kernel.privileges import read_privileges

PAIR = np.dtype([("count", "u4"), ("flag", "u1"), ("total", "u8"), ("name", "S16")], align=True)


class Table:
    """Stands for a map of the descriptor 7."""

    descriptor = 7
    value = PAIR


# As the instructions of samples/bpf, the kernel's selftests and RFC 9669 are written.
KNOWN: list[tuple[Callable[[Assembly], None], str]] = [
    (lambda a: a.move(R1, 5), "b701000005000000"),
    (lambda a: a.move(R0, -1), "b7000000ffffffff"),
    (lambda a: a.move(R0, R1), "bf10000000000000"),
    (lambda a: a.move(R1, 1 << 32), "18010000000000000000000001000000"),
    (lambda a: a.move(R1, 0xFFFFFFFF), "18010000ffffffff0000000000000000"),
    (lambda a: a.move(R1, -(1 << 40)), "18010000000000000000000000ffffff"),
    (lambda a: a.compute(R2, "+=", -8), "07020000f8ffffff"),
    (lambda a: a.compute(R1, "-=", R2), "1f21000000000000"),
    (lambda a: a.compute(R9, "s>>=", 32), "c709000020000000"),
    (lambda a: a.compute(R0, "&=", 255), "57000000ff000000"),
    (lambda a: a.load(R0, R1, 4, 4), "6110040000000000"),
    (lambda a: a.load(R3, R1, 2, 2), "6913020000000000"),
    (lambda a: a.load(R3, R1, 0, 1), "7113000000000000"),
    (lambda a: a.store(R10, -8, R1, 8), "7b1af8ff00000000"),
    (lambda a: a.store(R10, -4, 1, 4), "620afcff01000000"),
    (lambda a: a.store(R10, -8, 0, 8), "7a0af8ff00000000"),
    (lambda a: a.store(R1, 0, 1, 1), "7201000001000000"),
    (lambda a: a.call("get_current_pid_tgid"), "850000000e000000"),
    (lambda a: a.leave(), "9500000000000000"),
    (lambda a: a.leave(0), "b7000000000000009500000000000000"),
    (lambda a: a.load_map(R1, Table), "18110000070000000000000000000000"),
    (lambda a: a.point_into(R1, Table, 16), "18210000070000000000000010000000"),
    (lambda a: a.add_to(Record(R0, PAIR), "total", R1), "db10080000000000"),
    (lambda a: a.add_to(Record(R0, PAIR), "count", R1), "c310000000000000"),
    (lambda a: a.set(Record(R0, PAIR, 8), "flag", 1), "72000c0001000000"),
    (lambda a: a.get(R1, Record(R0, PAIR), "total"), "7901080000000000"),
    (lambda a: a.point_at(R2, Record(R10, PAIR, -32), "name"), "bfa200000000000007020000f0ffffff"),
]


@pytest.mark.parametrize(("write", "encoded"), KNOWN, ids=[encoded for _, encoded in KNOWN])
@pytest.mark.spec("KRN-2")
def test_an_instruction_is_encoded_as_it_is_written_down(write: Callable[[Assembly], None], encoded: str) -> None:
    """Opcode, registers, offset and number stand where they stand everywhere else."""
    program = Assembly("known")
    write(program)
    assert program.assemble().instructions.hex() == encoded


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.spec("KRN-2")
def test_the_kernel_reads_an_operation_as_it_was_meant(operation: str) -> None:
    """The verifier's own text of an instruction is the text that it was written as."""
    program = Assembly("operations")
    program.move(R1, 7)
    program.move(R2, 3)
    program.compute(R1, operation, 2)
    program.compute(R1, operation, R2)
    assert [f"r1 {operation} 2", f"r1 {operation} r2"] == read_back(program)[2:4]


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.spec("KRN-2")
def test_the_kernel_reads_a_condition_as_it_was_meant(condition: str) -> None:
    """A jump to a label is one over as many slots as lie between, a number of 64 bits taking two."""
    program = Assembly("conditions")
    program.move(R1, 7)
    program.move(R2, 3)
    program.jump_if(R1, condition, 2, "end")
    program.jump_if(R1, condition, R2, "end")
    program.move(R3, 1 << 40)
    program.label("end")
    texts = [text.replace("0x2", "2") for text in read_back(program)]
    assert f"if r1 {condition} 2 goto pc+3" in texts or f"if r1 {condition} r2 goto pc+2" in texts


def read_back(program: Assembly) -> list[str]:
    """Return what the verifier reads in a program, which is made to fail at its end so that it says so."""
    if not read_privileges("/").has("bpf"):
        pytest.skip("this process is without CAP_BPF")
    program.leave(R9)
    with pytest.raises(ProgramRejected) as rejected:
        load(program.assemble(), RawTracepoint("sched_switch")).close()
    found = re.findall(r"^\d+: \([0-9a-f]{2}\) (.*?)\s*(?:;.*)?$", rejected.value.log, re.MULTILINE)
    return [str(text) for text in found]


def test_a_block_runs_where_its_condition_holds() -> None:
    """It is jumped over where the opposite does, to what comes after it."""
    program = Assembly("block")
    with program.when(R1, "s>", 3):
        program.move(R0, 1)
        program.leave()
    program.leave(0)
    jump = bytes.fromhex("d501020003000000")
    assert program.assemble().instructions.startswith(jump)


def test_labels_stand_once_and_somewhere() -> None:
    """A mistake in a program is an error when it is written, and not a jump to anywhere."""
    program = Assembly("labels")
    program.label("here")
    with pytest.raises(ValueError, match="'here' stands twice in labels"):
        program.label("here")
    program.jump("there")
    with pytest.raises(ValueError, match="labels jumps to 'there', which stands nowhere"):
        program.assemble()
    assert program.make_label("end") != program.make_label("end")


def test_a_number_that_does_not_fit_is_refused() -> None:
    """It would be another number for the kernel, which takes 32 bits as signed."""
    program = Assembly("numbers")
    with pytest.raises(ValueError, match="4294967295 does not fit"):
        program.jump_if(R1, "==", 0xFFFFFFFF, "end")
    with pytest.raises(ValueError, match="no eBPF helper 'get_rich'"):
        program.call("get_rich")


def test_the_stack_is_given_out_from_its_end_and_ends() -> None:
    """Places lie at multiples of eight bytes, and one that does not fit is refused by the program's name."""
    program = Assembly("stack")
    first, second = program.reserve("u4"), program.reserve(PAIR)
    assert (first.offset, second.offset) == (-8, -8 - PAIR.itemsize)
    with pytest.raises(ValueError, match="stack takes more than the 512 bytes"):
        program.reserve(np.dtype("V500"))
    with pytest.raises(KeyError, match="colour"):
        program.set(second, "colour", 1)
    with pytest.raises(KeyError, match="no fields"):
        program.set(first, "colour", 1)


def test_clearing_leaves_no_byte_out() -> None:
    """What lies between fields is cleared too: 13 bytes are 8, 4 and 1."""
    program = Assembly("clear")
    program.clear(Record(R10, np.dtype("V13"), -16))
    assert list(program.assemble().instructions[::8]) == [0x7A, 0x62, 0x72]


def test_every_slot_remembers_the_line_that_emitted_it() -> None:
    """Both slots of a number of 64 bits are the line's."""
    program = Assembly("lines")
    program.move(R1, 1 << 40)
    program.leave(0)
    lines = program.assemble().lines
    assert len(lines) == 4
    assert lines[0] == lines[1] != lines[2] == lines[3]
    (line,) = lines[0]
    assert line.path == __file__
    assert lines[2][0].number == line.number + 1

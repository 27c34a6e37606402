"""Places that programs mark: their notes, held against readelf, and the operands of their arguments."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
from compiled import compile_c, run_tool
from marked_programs import MARK
from omn_kernel.bpf.mark_arguments import MarkArgument, parse_arguments
from omn_kernel.elf.image import SHT_NOTE, Image, Section, Segment, read_image
from omn_kernel.elf.marks import Mark, read_marks
from omn_kernel.elf.source import File, Memory

SOURCE = f"""
{MARK}
COUNTER(looked);
int main(int count, char **arguments) {{
    MARK("looked", "first", "-4@%0 8@%1", "r"(count), "m"(arguments));
    MARK("0", "second", "", "r"(count));
    return 0;
}}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return compile_c(tmp_path, "marks", SOURCE, "-O1")


@pytest.mark.spec("KRN-3")
def test_marks_are_those_that_readelf_shows(program: Path) -> None:
    """With where each stands, its counter and its arguments; a program of position-independent code begins at 0."""
    shown = re.findall(
        r"Provider: (\S+)\s+Name: (\S+)\s+Location: (\S+), Base: \S+, Semaphore: (\S+)\s+Arguments: *([^\n]*)",
        run_tool("readelf", "-n", str(program)),
    )
    with File(str(program)) as file:
        image = read_image(file)
        marks = read_marks(image)
        counters = [one.counter for one in marks]
        assert [file.read(one.offset, 1) for one in marks] == [b"\x90", b"\x90"]
    assert (
        [one.name for one in marks]
        == [f"{provider}:{name}" for provider, name, *_ in shown]
        == ["own:first", "own:second"]
    )
    assert [one.arguments for one in marks] == [arguments.strip() for *_, arguments in shown]
    assert counters[1] == 0
    assert counters[0] == find_offset_of(image, int(shown[0][3], 16))


def find_offset_of(image: Image, address: int) -> int:
    (one,) = (one for one in image.segments if one.kind == 1 and one.address <= address < one.address + one.file_size)
    return address - one.address + one.offset


def make_image(note: bytes, base: int) -> Image:
    """Make an image of one segment of code at 0x1000, one of data at 0x2000, and a section of notes."""
    sections = (
        Section(1, b".note.stapsdt", SHT_NOTE, 0, 0, 0, len(note), 0, 0, 0),
        Section(2, b".stapsdt.base", 1, 2, base, 0, 1, 0, 0, 0),
    )
    segments = (Segment(1, 5, 0x100, 0x1000, 0x1000, 0x1000), Segment(1, 6, 0x1100, 0x2000, 0x1000, 0x1000))
    return Image(Memory(note), is_64=True, order="<", machine=62, sections=sections, segments=segments)


def make_note(place: int, base: int, counter: int, text: bytes) -> bytes:
    body = struct.pack("<QQQ", place, base, counter) + text
    return struct.pack("<III", 8, len(body), 3) + b"stapsdt\0" + body + b"\0" * (-len(body) % 4)


def test_a_program_that_was_moved_after_it_was_linked_is_known_by_its_base() -> None:
    """Its notes say where it was before."""
    note = make_note(0x410, 0x500, 0x1420, b"a\0b\0\0")
    assert read_marks(make_image(note, 0x1100)) == (Mark("a:b", 0x110, 0x1120, ""),)


@pytest.mark.parametrize(
    "note",
    [
        make_note(0x1010, 0x1100, 0, b"a\0b\0\0")[:-6],
        make_note(0x1010, 0x1100, 0, b"a\0b"),
        make_note(0x9010, 0x1100, 0, b"a\0b\0\0"),
        make_note(0x1010, 0x1100, 0, b"\0b\0\0"),
        struct.pack("<III", 4, 4, 3) + b"GNU\0" + bytes(4),
        b"\xff" * 40,
    ],
)
def test_what_is_no_note_of_a_place_is_passed_over(note: bytes) -> None:
    """One that is cut short, of a place outside the file, of nobody, of another kind: those after it are found."""
    whole = make_note(0x1020, 0x1100, 0, b"a\0c\0\0")
    assert read_marks(make_image(whole + note, 0x1100)) == (Mark("a:c", 0x120, 0, ""),)


@pytest.mark.parametrize(
    ("text", "argument"),
    [
        ("-4@%edi", MarkArgument(4, True, "di")),
        ("8@%r10", MarkArgument(8, False, "r10")),
        ("1@%r9b", MarkArgument(1, False, "r9")),
        ("1@%ah", MarkArgument(1, False, "ax", 8)),
        ("2@%bx", MarkArgument(2, False, "bx")),
        ("4@$5", MarkArgument(4, False, number=5)),
        ("-8@$-0x10", MarkArgument(8, True, number=-16)),
        ("8@-24(%rbp)", MarkArgument(8, False, "bp", number=-24, is_memory=True)),
        ("-4@(%rax)", MarkArgument(4, True, "ax", is_memory=True)),
        ("8@16+8(%rsp)", MarkArgument(8, False, "sp", number=24, is_memory=True)),
        ("1@3(%rdx,%r8,4)", MarkArgument(1, False, "dx", number=3, is_memory=True, index="r8", scale=4)),
        ("8@(,%rcx,8)", MarkArgument(8, False, None, is_memory=True, index="cx", scale=8)),
        ("%rsi", MarkArgument(8, False, "si")),
        ("4f@%xmm0", None),
        ("8@%xmm0", None),
        ("8@variable(%rip)", None),
        ("8@()", None),
        ("3@%rax", None),
    ],
)
def test_an_operand_is_where_an_argument_lies(text: str, argument: MarkArgument | None) -> None:
    """A register, a number, memory; None for what is none of these, and its place is kept."""
    assert parse_arguments(f"{text} 4@$1") == (argument, MarkArgument(4, False, number=1))

"""ELF images: real files held to binutils, made ones to what they were made of, and bytes that nobody vouches for."""

from __future__ import annotations

import lzma
import re
import struct
import subprocess
import sysconfig
import zlib
from pathlib import Path

import numpy as np
import pytest
from compiled import compile_c, list_symbols, run_tool
from hypothesis import given, settings
from hypothesis import strategies as st
from omn_kernel.elf.build_ids import parse_build_id
from omn_kernel.elf.debug_data import read_debug_data
from omn_kernel.elf.image import PF_X, PT_LOAD, Segment, read_image
from omn_kernel.elf.notes import find_build_id, find_debug_link
from omn_kernel.elf.placing import compute_shift
from omn_kernel.elf.plt import read_entries
from omn_kernel.elf.source import ElfError, File, Memory
from omn_kernel.elf.tables import read_dynamic_symbols, read_static_symbols
from omn_kernel.symbols.debug_files import compute_checksum
from omn_kernel.symbols.objects import ObjectSymbols, read_object

PROGRAM = """
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) int leaf(int x) { return x * 3 + getpid(); }
static __attribute__((noinline)) int hidden(int x) { return leaf(x) + 1; }
int main(int argc, char **argv) { (void)argv; return hidden(argc) + (int)(long)malloc(7) == 12345; }
"""


def find_libraries() -> list[str]:
    """Find files of this machine that are large enough to hold every habit of a linker."""
    places = ["/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libsqlite3.so.0", "/usr/bin/gdb"]
    library = sysconfig.get_config_var("LDLIBRARY") or ""
    places.append(f"{sysconfig.get_config_var('LIBDIR')}/{library}")
    return [place for place in places if Path(place).is_file() and place.endswith((".0", ".6", "gdb", ".so"))]


LIBRARIES = find_libraries()


def read(path: Path | str) -> ObjectSymbols:
    with File(str(path)) as file:
        return read_object(read_image(file))


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return compile_c(tmp_path, "program", PROGRAM, "-O1", "-Wl,--build-id=sha1")


def find_name(known: ObjectSymbols, address: int) -> str | None:
    number = int(known.index.find(np.array([address], np.uint64))[0])
    return None if number < 0 else (known.index.list_names(np.array([number]))[0] or b"").decode()


@pytest.mark.spec("STK-3")
@pytest.mark.parametrize("path", LIBRARIES)
def test_every_function_that_nm_lists_is_named_at_its_first_and_last_byte(path: str) -> None:
    """Of the symbols that cover an address, one of those that start last names it: first byte, last byte and middle."""
    known = read(path)
    truth = list_symbols(path) if read_static(path) else []
    truth += list_symbols(path, "-D")
    sized = [one for one in set(truth) if one[1]]
    assert len(sized) > 30
    starts, ends = (np.array(column, np.uint64) for column in zip(*((a, a + s) for a, s, _ in sized), strict=True))
    names = [name for _, _, name in sized]
    probes = np.unique(np.concatenate([starts, ends - np.uint64(1), (starts + ends) // np.uint64(2)]))
    wrong = []
    for address, number in zip(probes.tolist(), known.index.find(probes).tolist(), strict=True):
        covering = np.flatnonzero((starts <= address) & (address < ends))
        innermost = {names[one] for one in covering if starts[one] == starts[covering].max()}
        found = (
            (known.index.list_names(np.array([number]))[0] or b"").decode().partition("@")[0] if number >= 0 else None
        )
        if found not in innermost:
            wrong.append((hex(address), found, innermost))
    assert not wrong


def read_static(path: str) -> bool:
    with File(path) as file:
        return read_static_symbols(read_image(file)) is not None


@pytest.mark.spec("STK-3")
@pytest.mark.parametrize("path", LIBRARIES)
def test_an_address_that_no_symbol_covers_has_no_name(path: str) -> None:
    """Between two functions there is padding, and past a stripped one's end there is code: neither is guessed at."""
    known = read(path)
    truth = [one for one in list_symbols(path, "-D") if one[1]]
    if read_static(path):
        truth += list_symbols(path)
    covered = np.array([(a, a + s) for a, s, _ in truth], np.uint64)
    after = np.unique(covered[:, 1])
    free = after[~((covered[:, :1] <= after) & (after < covered[:, 1:])).any(axis=0)]
    plt = entries_of(path)
    # A symbol without a size reaches to the next.
    sizes = dict(sorted((start, size) for start, size, _ in truth))
    before = np.array(sorted(sizes), np.uint64)
    last = [sizes[int(before[one])] for one in np.searchsorted(before, free, side="right") - 1]
    free = np.array([one for one, size in zip(free.tolist(), last, strict=True) if size and one not in plt], np.uint64)
    assert len(free)
    assert (known.index.find(free) == -1).all()


def entries_of(path: Path | str) -> dict[int, str]:
    with File(str(path)) as file:
        entries = read_entries(read_image(file))
    names = [entries.strings[at : entries.strings.index(b"\0", at)] for at in entries.name.tolist()]
    return {address: f"{name.decode()}@plt" for address, name in zip(entries.address.tolist(), names, strict=True)}


def list_plt(path: Path | str) -> dict[int, str]:
    """List the entries that objdump names."""
    text = "".join(
        run_tool("objdump", "-d", "-j", section, str(path))
        for section in (".plt", ".plt.sec", ".plt.got")
        if re.search(rf"\s{re.escape(section)}\s", run_tool("readelf", "-SW", str(path)))
    )
    return {int(address, 16): name for address, name in re.findall(r"^([0-9a-f]+) <(.*@plt)>:", text, re.MULTILINE)}


@pytest.mark.spec("STK-3")
@pytest.mark.parametrize("path", LIBRARIES)
def test_entries_of_the_linkage_table_are_named_as_objdump_names_them(path: str) -> None:
    """.plt and .plt.got, with entries that a relocation names by symbol and by address; versions left out."""
    truth = {address: name for address, name in list_plt(path).items() if not name.startswith("*ABS*@plt")}
    found = entries_of(path)
    assert truth
    strip = re.compile(r"@@?[A-Za-z0-9_.]+(?=@plt)")
    assert {a: strip.sub("", n) for a, n in found.items() if a in truth} == {
        a: strip.sub("", n) for a, n in truth.items()
    }


@pytest.mark.spec("STK-3", "STK-5")
@pytest.mark.parametrize(
    "flags",
    [
        ("-fcf-protection=full", "-Wl,-z,ibtplt"),
        ("-fcf-protection=none",),
        ("-no-pie",),
        ("-Wl,-z,now",),
        ("-static-pie",),
    ],
    ids=" ".join,
)
def test_the_linkage_table_of_every_kind_of_program_is_read(flags: tuple[str, ...], tmp_path: Path) -> None:
    """With and without indirect branch tracking, position-independent or not, bound lazily or at once."""
    path = compile_c(tmp_path, "program", PROGRAM, "-O1", *flags)
    truth = list_plt(path)
    found = entries_of(path)
    assert {address: found.get(address) for address in truth} == truth
    if "-static-pie" not in flags:
        assert {"getpid@plt", "malloc@plt"} <= set(found.values())


@pytest.mark.spec("STK-5")
def test_a_32_bit_program_is_read_as_one(tmp_path: Path) -> None:
    """Its symbols, its addresses and its build id, from tables of another layout."""
    source = "int leaf(int x) { return x * 3; }\nvoid _start(void) { for (;;) leaf(1); }\n"
    path = compile_c(tmp_path, "small", source, "-m32", "-nostdlib", "-static", "-no-pie", "-Wl,--build-id=sha1")
    known = read(path)
    for address, size, name in list_symbols(path):
        assert find_name(known, address + max(size, 1) - 1) == name
    assert known.build_id == read_build_id(path)


def read_build_id(path: Path | str) -> str:
    return re.findall(r"Build ID: ([0-9a-f]+)", run_tool("readelf", "-n", str(path)))[0]


@pytest.mark.spec("STK-3")
def test_a_build_id_is_what_readelf_reads(program: Path) -> None:
    """In a program, and in the debug file made of it, whose segments hold no bytes."""
    debug = program.with_suffix(".debug")
    subprocess.run(["objcopy", "--only-keep-debug", str(program), str(debug)], check=True)
    assert read(program).build_id == read(debug).build_id == read_build_id(program)


@pytest.mark.spec("STK-3")
def test_a_debug_link_names_the_file_and_its_checksum(program: Path) -> None:
    """As objcopy writes it."""
    debug = program.with_suffix(".debug")
    subprocess.run(["objcopy", "--only-keep-debug", str(program), str(debug)], check=True)
    subprocess.run(["objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", str(program)], check=True)
    with File(str(program)) as file, File(str(debug)) as separate:
        link = find_debug_link(read_image(file))
        assert link is not None
        assert (link.name, link.checksum) == (debug.name, zlib.crc32(debug.read_bytes()))
        assert compute_checksum(separate) == link.checksum


def add_debug_data(program: Path, content: bytes) -> None:
    """Strip a program and give it a .gnu_debugdata."""
    data = program.with_suffix(".xz")
    data.write_bytes(content)
    command = ["objcopy", "--strip-all", f"--add-section=.gnu_debugdata={data}", str(program)]
    subprocess.run(command, check=True)


@pytest.mark.spec("STK-3")
def test_a_stripped_program_is_named_by_the_table_it_carries_compressed(program: Path) -> None:
    """A local function is named from .gnu_debugdata, and the answer says so."""
    start, size, _ = next(one for one in list_symbols(program) if one[2] == "hidden")
    add_debug_data(program, lzma.compress(program.read_bytes()))
    known = read(program)
    number = int(known.index.find(np.array([start + size - 1], np.uint64))[0])
    assert known.index.list_names(np.array([number]))[0] == b"hidden"
    assert known.index.list_sources(np.array([number]))[0] == "gnu_debugdata"
    assert known.damage == []


@pytest.mark.spec("SEC-4")
@pytest.mark.parametrize("content", [b"", b"\xfd7zXZ\0", b"no xz", lzma.compress(b"no image")], ids=repr)
def test_a_damaged_compressed_table_is_said_and_the_rest_still_names(program: Path, content: bytes) -> None:
    """The dynamic symbols stay, and a clause says what is missing."""
    add_debug_data(program, content or b"\0")
    known = read(program)
    assert len(known.damage) == 1
    assert len(known.index) > 0
    address, name = next(iter(entries_of(program).items()))
    assert find_name(known, address) == name


@pytest.mark.spec("SEC-4")
def test_a_compressed_table_that_swells_is_given_up(monkeypatch: pytest.MonkeyPatch, program: Path) -> None:
    """A table of a few kilobytes can hold gigabytes of zeros."""
    monkeypatch.setattr("omn_kernel.elf.debug_data._MOST_BYTES", 1 << 16)
    add_debug_data(program, lzma.compress(bytes(1 << 20)))
    with File(str(program)) as file, pytest.raises(ElfError, match="is past"):
        read_debug_data(read_image(file))


def test_notes_of_other_kinds_are_stepped_over() -> None:
    """A build id behind another note, in the other byte order too."""
    for order in "<>":
        other = struct.pack(order + "III", 4, 5, 1) + b"GNU\0" + b"12345" + bytes(3)
        ours = struct.pack(order + "III", 4, 4, 3) + b"GNU\0" + b"\xab\xcd\xef\x01"
        assert parse_build_id(other + ours, order) == "abcdef01"
        assert parse_build_id(other, order) is None
        assert parse_build_id((other + ours)[:-1], order) is None


@pytest.mark.spec("SEC-4")
def test_what_is_no_file_or_no_image_is_refused(tmp_path: Path) -> None:
    """Nothing waits for the writer of a fifo, and a text is told from an image."""
    import os

    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(ElfError, match="no regular file"):
        File(str(tmp_path / "fifo"))
    for content in (b"", b"\x7fELF", b"#!/bin/sh\n" * 10, b"\x7fELF\x02\x01" + b"\xff" * 200):
        with pytest.raises(ElfError):
            read_image(Memory(content))


@pytest.mark.spec("SEC-4")
def test_a_file_that_shrinks_while_it_is_read_is_an_error_and_no_crash(program: Path) -> None:
    """It is read by position and never mapped."""
    with File(str(program)) as file:
        image = read_image(file)
        program.write_bytes(b"")
        with pytest.raises(ElfError, match="cut short"):
            read_static_symbols(image)
        assert find_build_id(image) is None


@pytest.fixture(scope="module")
def small_image(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return compile_c(tmp_path_factory.mktemp("fuzz"), "program", PROGRAM, "-O1").read_bytes()


@pytest.mark.spec("SEC-4")
@settings(max_examples=300)
@given(data=st.data())
def test_a_damaged_image_is_an_error_or_an_answer(small_image: bytes, data: st.DataObject) -> None:
    """Headers, tables and relocations overwritten anywhere, the end cut off: an ElfError, or names of what is left."""
    content = bytearray(small_image)
    header = struct.unpack_from("<QQ", content, 32)
    places = st.one_of(
        st.integers(0, 63),
        st.integers(header[0], header[0] + 56 * 13),
        st.integers(header[1], len(content) - 1),
        st.integers(0, len(content) - 1),
    )
    for place in data.draw(st.lists(places, max_size=12)):
        content[place] = data.draw(st.sampled_from((0, 1, 0x7F, 0x80, 0xFF)))
    cut = data.draw(st.one_of(st.none(), st.integers(0, len(content))))
    try:
        known = read_object(read_image(Memory(bytes(content[:cut]))))
    except ElfError:
        return
    addresses = np.array([0, 0x1000, 0x1139, (1 << 64) - 1], np.uint64)
    for number in known.index.find(known.compute_addresses(addresses)).tolist():
        assert number < 0 or known.index.list_names(np.array([number]))[0] is not None


def test_dynamic_symbols_are_what_readelf_counts(program: Path) -> None:
    """Every record of the table, the empty first one among them."""
    with File(str(program)) as file:
        table = read_dynamic_symbols(read_image(file))
    assert table is not None
    (count,) = re.findall(r"'\.dynsym' contains (\d+) entr", run_tool("readelf", "--dyn-syms", str(program)))
    assert len(table.records) == int(count)


@pytest.mark.spec("SEC-4")
@pytest.mark.parametrize(
    ("place", "value", "complaint"),
    [(56, 0xFFFF, "65535 segments"), (60, 0xFFFF, "cut short"), (54, 7, "headers are of 7 bytes")],
)
def test_a_header_that_claims_too_much_is_refused(small_image: bytes, place: int, value: int, complaint: str) -> None:
    """Counts past the bound, counts past the end of the file, and records of another format's size."""
    content = bytearray(small_image)
    struct.pack_into("<H", content, place, value)
    with pytest.raises(ElfError, match=complaint):
        read_image(Memory(bytes(content)))


@pytest.mark.spec("SEC-4")
def test_a_section_that_claims_more_than_any_is_refused(tmp_path: Path) -> None:
    """A sparse file has room for any claim, and no byte of it is read."""
    sections = struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    sections += struct.pack("<IIQQQQIIQQ", 0, 2, 0, 0, 4096, 1 << 40, 0, 0, 8, 24)
    header = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, 0, 0, 64, 0, 64, 56, 0, 64, 2, 0)
    path = tmp_path / "sparse"
    path.write_bytes(header + sections)
    with path.open("r+b") as file:
        file.truncate(1 << 41)
    with File(str(path)) as source, pytest.raises(ElfError, match="past the"):
        read_static_symbols(read_image(source))


@pytest.mark.spec("STK-2", "STK-5")
@pytest.mark.parametrize(
    ("offset", "size", "shift"),
    [
        (0x12000, 0x3E000, 0x1000),  # a page that ends another segment begins the code
        (0x50000, 0x1000, 0x2000),  # data that was made executable
        (0x4F000, 0x1000, 0x1000),  # the code's last page, mapped by itself
        (0, 0x13000, 0x1000),  # all of the file up to the code's first page: some of it is code
        (0x90000, 0x1000, 0),
    ],
)
def test_a_stretch_of_code_stands_where_its_own_segment_has_it(offset: int, size: int, shift: int) -> None:
    """Segments that share pages of the file, as linkers make them that do not pad it."""
    segments = (
        Segment(PT_LOAD, 4, 0, 0, 0x127F8, 0x127F8),
        Segment(PT_LOAD, 4 | PF_X, 0x12800, 0x13800, 0x3C980, 0x3C980),
        Segment(PT_LOAD, 6, 0x4F180, 0x51180, 0x2628, 0x2E80),
    )
    assert compute_shift(segments, offset, size) == shift

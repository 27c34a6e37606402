"""What an object's tables answer a few addresses at a time is what an index of everything in them answers."""

from __future__ import annotations

from pathlib import Path

import attrs
import numpy as np
import pytest
from compiled import compile_c
from hypothesis import given, settings
from hypothesis import strategies as st
from omn_kernel.elf.image import read_image
from omn_kernel.elf.source import File
from omn_kernel.symbols.functions import LaterTable, ObjectFunctions, Table, pick_out
from omn_kernel.symbols.index import Addresses, Candidates, Numbers, SymbolIndex, add_sizes
from omn_kernel.symbols.objects import read_object

STEP, END = 1 << 6, 90 << 6


@attrs.frozen(eq=False)
class Records:
    """Symbols of a test, as a table keeps them: a label ends where it starts."""

    start: Addresses
    end: Addresses
    whole: Candidates

    def take(self, chosen: Numbers) -> Candidates:
        return self.whole.take(chosen)


def make(symbols: list[tuple[int, int, int]], source: str) -> Records:
    """Make a table of (start, size, rank); each is called by its source and number."""
    names = [f"{source}{number}".encode() + b"\0" for number in range(len(symbols))]
    places = np.cumsum([1, *map(len, names)])[:-1]
    start, size = (np.array([one[column] for one in symbols], np.uint64) for column in (0, 1))
    sized = size > 0
    ends = add_sizes(start, size)
    # The linker's order: what has a size is preferred.
    preference = np.array([rank for _, _, rank in symbols], np.uint8) | np.where(sized, 0, 32).astype(np.uint8)
    reach = np.where(sized, ends, np.maximum(np.uint64(END), start))
    strings = b"\0" + b"".join(names)
    return Records(start, ends, Candidates(source, strings, start, reach, sized, preference, places.astype(np.uint32)))


def ask(functions: ObjectFunctions | SymbolIndex, addresses: list[int]) -> list[tuple[int, bytes | None, str] | None]:
    """Ask for addresses in one call: where the function of each starts, its name, and who named it."""
    found = functions.find(np.array(addresses, np.uint64))
    numbers = [np.array([one]) for one in found.tolist()]
    return [
        None
        if one[0] < 0
        else (functions.list_starts(one)[0], functions.list_names(one)[0], functions.list_sources(one)[0])
        for one in numbers
    ]


PLACES = st.integers(0, 60).map(lambda place: place * STEP // 3)
SYMBOLS = st.lists(st.tuples(PLACES, st.one_of(st.just(0), PLACES), st.integers(0, 3)), max_size=25)
ASKED = st.lists(st.integers(0, 100 * STEP), min_size=1, max_size=6)


@pytest.mark.parametrize("few", [0, 1 << 12])
@settings(max_examples=150)
@given(first=SYMBOLS, second=SYMBOLS, calls=st.lists(ASKED, min_size=1, max_size=3))
@pytest.mark.spec("STK-3")
def test_a_few_addresses_are_answered_as_by_an_index_of_everything(
    few: int, first: list[tuple[int, int, int]], second: list[tuple[int, int, int]], calls: list[list[int]]
) -> None:
    """Labels, functions in functions, several at one place, in two tables; asked for again and again."""
    tables = [make(first, "symtab"), make(second, "dynsym")]
    whole = SymbolIndex([one.whole for one in tables if len(one.start)])
    functions = ObjectFunctions(tables)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("omn_kernel.symbols.functions._FEW", few)
        for addresses in calls:
            assert ask(functions, addresses) == ask(whole, addresses)


def test_only_what_has_a_say_is_made_an_index_of() -> None:
    """Of a hundred thousand functions of one size, some for each address, however far these are apart."""
    count = 100_000
    start = np.arange(count, dtype=np.uint64) * np.uint64(STEP)
    alike = np.zeros(count, np.uint8)
    many = Candidates("symtab", b"\0", start, start + np.uint64(STEP), np.ones(count, bool), alike, alike.astype("u4"))
    points = np.sort(np.random.default_rng(1).choice(start, 200)) + np.uint64(3)
    picked = pick_out([many], points)
    assert sum(len(one.start) for one in picked) < 4 * len(points)


def test_a_later_table_is_read_for_what_no_function_holds_and_once() -> None:
    """It is asked whether it may hold that, and it names what the first does not."""
    asked: list[list[int]] = []
    read: list[str] = []

    def may_hold(addresses: Addresses) -> bool:
        asked.append(addresses.tolist())
        return 700 in addresses.tolist()

    def read_it() -> list[Table]:
        read.append("second")
        return [make([(640, 128, 0)], "dynsym")]

    functions = ObjectFunctions([make([(64, 64, 0)], "symtab")], [LaterTable(may_hold, read_it)])
    assert ask(functions, [70]) == [(64, b"symtab0", "symtab")]
    assert asked == read == []
    assert ask(functions, [600]) == [None]
    assert (asked, read) == ([[600]], [])
    assert ask(functions, [70, 700, 900]) == [(64, b"symtab0", "symtab"), (640, b"dynsym0", "dynsym"), None]
    assert ask(functions, [901, 701]) == [None, (640, b"dynsym0", "dynsym")]
    assert (asked, read) == ([[600], [700, 900]], ["second"])


def test_an_object_that_stays_open_answers_as_one_that_was_read_whole(tmp_path: Path) -> None:
    """Every byte of a program's code: its functions, its procedure linkage entries, and the gaps between."""
    source = '#include <stdlib.h>\nint main(int count, char **words) { (void)words; return atoi(getenv("A")) + count; }'
    path = compile_c(tmp_path, "program", source, "-O1")
    with File(str(path)) as file:
        image = read_image(file)
        kept, whole = read_object(image, stays=True), read_object(image)
        code = [one for one in image.sections if one.flags & 4]
        addresses = [at for one in code for at in range(one.address, one.address + one.size, 3)]
        answers = [ask(kept.index, [address])[0] for address in addresses]
        assert answers == ask(whole.index, addresses)
        assert {b"main", b"getenv@plt"} <= {one[1] for one in answers if one is not None}
        assert list(kept.damage) == []


def test_a_whole_table_of_few_is_made_an_index_of_again_when_another_is_read() -> None:
    """What the first named stays as it was."""
    later = LaterTable(lambda _: True, lambda: [make([(640, 128, 0), (64, 64, 0)], "dynsym")])
    functions = ObjectFunctions([make([(64, 64, 1)], "symtab")], [later])
    first = functions.find(np.array([70], np.uint64))
    assert ask(functions, [70]) == [(64, b"symtab0", "symtab")]
    assert ask(functions, [700]) == [(640, b"dynsym0", "dynsym")]
    assert functions.find(np.array([70], np.uint64)).tolist() == first.tolist()


def test_what_cannot_be_read_any_more_is_said(tmp_path: Path) -> None:
    """A file that was let go of: what was read of it still names, and what is missing is said once."""
    path = compile_c(tmp_path, "program", "int main(void) { return 0; }", "-O1")
    with File(str(path)) as file:
        image = read_image(file)
        known = read_object(image, stays=True)
    (main,) = (one for one in ask(known.index, known.index._tables[0].start.tolist()) if one and one[1] == b"main")
    assert ask(known.index, [main[0], 3]) == [main, None]
    assert len(known.damage) == 1

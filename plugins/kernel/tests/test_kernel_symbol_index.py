"""Which symbol an address is in: the rules one by one, and against a search through all of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from omn_kernel.symbols.index import MOST_NAME_BYTES, Candidates, SymbolIndex, add_sizes

END = 1 << 20


def make(*symbols: tuple[int, int, str], source: str = "symtab", preference: tuple[int, ...] = ()) -> Candidates:
    """Make candidates of (start, size, name)."""
    strings, names = b"\0", []
    for _, _, name in symbols:
        names.append(len(strings))
        strings += name.encode() + b"\0"
    start, size = (np.array([one[column] for one in symbols], np.uint64) for column in (0, 1))
    sized = size > 0
    return Candidates(
        source=source,
        strings=strings,
        start=start,
        end=np.where(sized, add_sizes(start, size), np.uint64(END)),
        is_sized=sized,
        preference=np.array(preference or [0] * len(symbols), np.uint8),
        name=np.array(names, np.uint32),
    )


def ask(index: SymbolIndex, *addresses: int) -> list[str | None]:
    found = index.find(np.array(addresses, np.uint64)).tolist()
    return [None if one < 0 else (index.list_names(np.array([one]))[0] or b"").decode() for one in found]


def test_nothing_names_nothing() -> None:
    """No table at all, and tables without a symbol."""
    assert ask(SymbolIndex([]), 0, 5) == [None, None]
    assert ask(SymbolIndex([make()]), 0, 5) == [None, None]


@pytest.mark.spec("STK-3")
def test_no_address_past_a_symbols_size_is_named() -> None:
    """Before the first, at its ends, and between two."""
    index = SymbolIndex([make((0x100, 0x10, "a"), (0x120, 0x10, "b"))])
    assert ask(index, 0xFF, 0x100, 0x10F, 0x110, 0x11F, 0x120, 0x130) == [None, "a", "a", None, None, "b", None]


@pytest.mark.spec("STK-3")
def test_a_symbol_without_a_size_reaches_to_the_next_and_not_out_of_its_section() -> None:
    """As perf has it; the last one ends with its section."""
    index = SymbolIndex([make((0x100, 0, "a"), (0x120, 0x10, "b"), (0x140, 0, "c"))])
    assert ask(index, 0x11F, 0x12F, 0x130, END - 1, END) == ["a", "b", None, "c", None]


@pytest.mark.spec("STK-3")
def test_a_label_inside_a_function_names_nothing() -> None:
    """Hand-written code is full of them."""
    index = SymbolIndex([make((0x100, 0x40, "f"), (0x110, 0, "loop"), (0x140, 0, "after"))])
    assert ask(index, 0x10F, 0x110, 0x13F, 0x140) == ["f", "f", "f", "after"]


@pytest.mark.spec("STK-3")
def test_an_address_in_several_functions_goes_to_the_innermost() -> None:
    """Nested, crossing, and back in the outer one after the inner ended."""
    index = SymbolIndex([make((0x100, 0x100, "outer"), (0x120, 0x20, "inner"), (0x1F0, 0x40, "crossing"))])
    assert ask(index, 0x11F, 0x120, 0x13F, 0x140, 0x1EF, 0x1F0, 0x200, 0x22F, 0x230) == [
        "outer", "inner", "inner", "outer", "outer", "crossing", "crossing", "crossing", None,
    ]  # fmt: skip


@pytest.mark.spec("STK-3")
def test_of_symbols_at_one_address_the_preferred_names_it_then_the_better_source() -> None:
    """The smallest preference first, and then the table that came first."""
    own = make((0x100, 8, "__f"), (0x100, 8, "f"), preference=(1, 0))
    index = SymbolIndex([own, make((0x100, 8, "other"), (0x200, 8, "only"), source="dynsym")])
    assert ask(index, 0x104, 0x204) == ["f", "only"]
    found = index.find(np.array([0x104, 0x204], np.uint64)).tolist()
    assert [index.list_sources(np.array([one]))[0] for one in found] == ["symtab", "dynsym"]


@pytest.mark.spec("SEC-4")
def test_a_name_longer_than_any_compiler_makes_is_no_name() -> None:
    """64 KiB is shown whole; more is not, and neither is it read again and again."""
    index = SymbolIndex([make((0x100, 8, "a" * MOST_NAME_BYTES), (0x200, 8, "b" * (MOST_NAME_BYTES + 1)))])
    assert ask(index, 0x100) == ["a" * MOST_NAME_BYTES]
    (number,) = index.find(np.array([0x200], np.uint64)).tolist()
    assert index.list_names(np.array([number]))[0] is None


@pytest.mark.spec("SEC-4")
def test_names_that_share_their_ends_are_read_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of a few bytes can spell many long names."""
    monkeypatch.setattr("omn_kernel.symbols.index._MOST_NAMES_BYTES", 1000)
    count = 400
    shared = make((0, 1, "x" * count))
    starts = np.arange(count, dtype=np.uint64)
    sized, alike = np.ones(count, bool), np.zeros(count, np.uint8)
    names_at = np.arange(1, count + 1, dtype=np.uint32)
    many = Candidates("symtab", shared.strings, starts, starts + np.uint64(1), sized, alike, names_at)
    index = SymbolIndex([many])
    names = [index.list_names(np.array([number]))[0] for number in range(count)]
    assert names[0] == b"x" * count
    assert names[-1] is None


def test_a_size_that_wraps_around_reaches_to_the_end() -> None:
    """And no further: addresses before it stay unnamed."""
    index = SymbolIndex([make(((1 << 64) - 16, (1 << 64) - 1, "end"), (5, 3, "a"))])
    assert ask(index, (1 << 64) - 2, (1 << 64) - 17, 6) == ["end", None, "a"]


RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30), st.integers(0, 3)), max_size=25)


@settings(max_examples=400)
@given(RANGES)
@pytest.mark.spec("STK-3")
def test_a_search_in_the_index_answers_as_a_search_through_all(ranges: list[tuple[int, int, int]]) -> None:
    """The rules as the module states them, written as a loop over every symbol."""
    symbols = [(start, size, f"s{number}") for number, (start, size, _) in enumerate(ranges)]
    # The linker's order: what has a size is preferred.
    preference = tuple(rank | (0 if size else 32) for _, size, rank in ranges)
    index = SymbolIndex([make(*symbols, preference=preference)])
    best: dict[int, int] = {}
    for number in sorted(range(len(symbols)), key=lambda one: (preference[one], one)):
        best.setdefault(symbols[number][0], number)
    chosen = [symbols[number] for number in best.values()]
    sized = [one for one in chosen if one[1]]
    labels = [one for one in chosen if not one[1] and not any(s < one[0] < s + z for s, z, _ in sized)]
    for address in range(100):
        covering = [one for one in sized if one[0] <= address < one[0] + one[1]]
        starts = [one for one in [*sized, *labels] if one[0] <= address]
        last = max(starts, key=lambda one: one[0], default=None)
        if last is not None and last in labels:
            covering.append(last)
        truth = max(covering, key=lambda one: one[0])[2] if covering else None
        assert ask(index, address) == [truth], address

"""Columns of what programs wrote: every row its own text, however many rows, and one interned string for each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from omn_kernel.bpf import columns
from omn_kernel.bpf.columns import make_named_column, make_text_column

from omn_core.api import Names

TEXTS = st.lists(st.binary(max_size=16), max_size=50)


def check(texts: list[bytes]) -> None:
    names = Names()
    column = make_text_column(np.array(texts, "S16"), names)
    expected = [text.partition(b"\0")[0].decode("utf-8", "surrogateescape") for text in texts]
    assert column.to_list() == expected
    assert set(names.texts) == set(expected)


@given(TEXTS)
def test_each_row_has_its_own_text(texts: list[bytes]) -> None:
    """Up to its first zero byte, whatever follows, and whatever bytes it has."""
    check(texts)


def test_texts_whose_sums_are_one_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a factor that adds nothing, every text of the same last word has one sum."""
    monkeypatch.setattr(columns, "_ODD", np.uint64(0))
    check([b"first....same", b"other....same", b"", b"first....same"])


def test_texts_within_records_are_read_in_place() -> None:
    """A field of a structure, of a size that no word divides."""
    rows = np.zeros(4, np.dtype([("ns", np.uint64), ("name", "S13")]))
    rows["name"] = [b"a", b"bb", b"a", b"exactly13byte"]
    assert make_text_column(rows["name"], Names()).to_list() == ["a", "bb", "a", "exactly13byte"]


def test_numbers_are_named_once_each() -> None:
    """And a number without a name is absent."""
    asked: list[int] = []

    def name(number: int) -> str | None:
        asked.append(number)
        return None if number == 3 else f"number {number}"

    column = make_named_column(np.array([5, 3, 5, 4], np.uint32), name, Names())
    assert column.to_list() == ["number 5", None, "number 5", "number 4"]
    assert sorted(asked) == [3, 4, 5]

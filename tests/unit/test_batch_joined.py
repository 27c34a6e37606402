"""Batches laid end to end: what each row carried is what it carries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omn_core.model.batch import Batch, Column, Names

TEXTS = st.lists(st.one_of(st.none(), st.sampled_from(["sh", "true", "python3"])), min_size=1, max_size=4)


def join(parts: list[list[Any]], name: str = "comm") -> list[Any]:
    """Make a batch of each list, as a collector's reading does, and return what their joint column holds."""
    names = Names()
    batches = [Batch(np.arange(len(part)), attributes={name: Column.of(part, names)}) for part in parts]
    return Batch.concatenate(batches).attributes[name].to_list()


@pytest.mark.spec("EVT-1")
@given(st.lists(TEXTS, min_size=1, max_size=5))
def test_a_text_that_a_whole_reading_lacked_is_absent_in_its_rows(parts: list[list[str | None]]) -> None:
    """A reading in which nothing had a name says no other's name, and takes none from the other readings."""
    assert join(parts) == [value for part in parts for value in part]


@pytest.mark.spec("EVT-1")
@given(st.lists(st.lists(st.one_of(st.none(), st.integers(-9, 9)), min_size=1, max_size=4), min_size=1, max_size=5))
def test_a_number_that_a_whole_reading_lacked_is_absent_in_its_rows(parts: list[list[int | None]]) -> None:
    """So it is with numbers: an absent one is no zero."""
    assert join(parts) == [value for part in parts for value in part]

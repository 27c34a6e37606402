"""What differs among many numbers, and which are among others.

`np.unique` alone, and `np.isin` by it, load numpy's masked arrays: in the window of a run, or for one small question.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def list_distinct(numbers: npt.NDArray[Any]) -> list[int]:
    """Return each number that occurs, in their order."""
    ordered = np.sort(numbers)
    is_first = np.ones(len(ordered), bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    found: list[int] = ordered[is_first].tolist()
    return found


def are_among(numbers: npt.NDArray[Any], others: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Tell which numbers are among others of their kind."""
    if not len(others):
        return np.zeros(len(numbers), bool)
    ordered = np.sort(others)
    at = np.minimum(np.searchsorted(ordered, numbers), len(ordered) - 1)
    return np.asarray(ordered[at] == numbers)

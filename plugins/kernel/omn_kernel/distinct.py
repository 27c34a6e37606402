"""What differs among many numbers. `np.unique` alone loads numpy's masked arrays for it, in the window of a run."""

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

"""A column of numbers of one unit, so that they compare at a glance: one unit for all, the points below each other."""

from __future__ import annotations

import math
from collections.abc import Sequence

from omn_core.format.scale import EXACT_COUNT, UNKNOWN_FIGURE, Steps, find_steps, join_sign, render_number

_LEAST_SHOWN = 0.1
"""The least that a figure may be in the unit that all share; a smaller one has every figure keep a unit of its own."""

_TOO_LONG = 1e6
"""From here on a figure that no step shortens is written with an exponent."""

_MOST_DECIMALS = 3


def render_column(values: Sequence[float | None], unit: str, scale: str | None = None) -> list[str]:
    """Return the numbers of a column, as `render_number` spells one, aligned with each other.

    They share the unit of the greatest and as many decimals as its four digits leave, where the least that is not zero
    still shows; a share that would not show is spelled `<0.01`, and zero alone `0`. Where they span too much for one
    unit each keeps its own. A single number is spelled as it would be alone.
    """
    known = [abs(value) for value in values if value is not None]
    if len(known) < 2:
        return [render_number(value, unit, scale) for value in values]
    steps = find_steps(unit, scale)
    place = _find_place(max(known) * steps.factor, steps)
    divisor = steps.size**place / steps.factor
    sizes = [float(size / divisor) for size in known]
    # By the figure, and not by its size in the unit, which underflows to zero where the figure is next to nothing.
    least = min((size for size, figure in zip(sizes, known, strict=True) if figure), default=1.0)
    is_too_wide = least < _LEAST_SHOWN and not steps.is_share
    if is_too_wide or max(sizes) >= _TOO_LONG:
        return _align([render_number(value, unit, scale) for value in values])
    decimals = _find_decimals(sizes, is_share=steps.is_share)
    return [
        UNKNOWN_FIGURE if value is None else join_sign(_spell(value / divisor, decimals), steps.signs[place])
        for value in values
    ]


def _find_place(greatest: float, steps: Steps) -> int:
    if steps.counts and greatest < EXACT_COUNT:
        return 0
    place = 0
    while round(greatest / steps.size**place, 1) >= steps.size and place < len(steps.signs) - 1:
        place += 1
    return place


def _find_decimals(sizes: Sequence[float], *, is_share: bool) -> int:
    if all(size.is_integer() for size in sizes):
        return 0
    greatest = max(sizes)
    digits = 0 if greatest < 1 else int(math.log10(greatest))
    decimals = min(max(_MOST_DECIMALS - digits, 0), _MOST_DECIMALS)
    least = min(size for size in sizes if size)
    if is_share:
        return min(max(decimals, 2 if least < 1 else 1), 2)
    return min(max(decimals, 2 if least < 1 else 1 if least < 10 else 0), _MOST_DECIMALS)


def _spell(value: float, decimals: int) -> str:
    if not value:
        return "0"
    number = f"{value:.{decimals}f}"
    if float(number):
        return number
    return f"{'<' if value > 0 else '>-'}{10**-decimals:.{decimals}f}"


def _align(texts: Sequence[str]) -> list[str]:
    """Return numbers with units of their own, each unit beginning in one place."""
    parts = [text.partition(" ") for text in texts]
    widest = max(len(sign) for _, _, sign in parts)
    return [f"{number} {sign:<{widest}}" if widest else number for number, _, sign in parts]

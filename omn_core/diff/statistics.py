"""How sure a difference is: Welch's test between runs, the noise of counting within one, false verdicts held down."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from omn_core.diff.model import Figure

FALSE_RATE = 0.01
"""The share of false verdicts that is allowed: of sides that do not differ, one comparison in a hundred has any."""

_STEPS = 400
_TINY = 1e-300


@attrs.frozen
class Outcome:
    """A difference between two figures: its standard error, and the chance of one as large by chance alone."""

    error: float
    p: float


def compare(a: Figure, b: Figure) -> Outcome | None:
    """Test whether two figures differ. None where nothing says how much they would without a difference.

    With two runs or more on each side Welch's test, whose error is never less than what counting alone would make;
    else the noise of counting, corrected for counts being whole.
    """
    counted = _find_counting_variance(a, b)
    difference = b.mean - a.mean
    if min(len(a.values), len(b.values)) < 2:
        if counted is None:
            return None
        error = math.sqrt(counted)
        distance = max(abs(difference) - max(a.step, b.step), 0.0)
        return Outcome(error, math.erfc(distance / error / math.sqrt(2)) if error else 1.0)
    parts = [_compute_variance(one.values) / len(one.values) for one in (a, b)]
    variance = max(sum(parts), counted or 0.0)
    if not variance:  # every run of either side gave one figure: it tells nothing of how they would spread
        return None if difference else Outcome(0.0, 1.0)
    error = math.sqrt(variance)
    return Outcome(error, compute_t_tail(difference / error, _find_degrees(a, b, parts)))


def _find_counting_variance(a: Figure, b: Figure) -> float | None:
    """Find the variance that counting makes in the difference of two means, None where it is not known of both."""
    if a.noises is None or b.noises is None:
        return None
    return sum(sum(one) / len(one) ** 2 for one in (a.noises, b.noises))


def _compute_variance(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def _find_degrees(a: Figure, b: Figure, parts: Sequence[float]) -> float:
    """Return the degrees of freedom by Welch and Satterthwaite."""
    sizes = len(a.values), len(b.values)
    below = sum(part**2 / (size - 1) for part, size in zip(parts, sizes, strict=True))
    return sum(parts) ** 2 / below if below > 0 else float(sum(sizes) - 2)


def compute_t_tail(t: float, degrees: float) -> float:
    """Return the chance that Student's t is as far from zero as this, on either side."""
    return _compute_beta(degrees / (degrees + t * t), degrees / 2, 0.5)


def _compute_beta(x: float, a: float, b: float) -> float:
    """Return the regularized incomplete beta function, by its continued fraction (DLMF 8.17.22)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # where the fraction converges slowly, its complement converges fast
        return 1 - _compute_beta(1 - x, b, a)
    logarithm = a * math.log(x) + b * math.log1p(-x) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    fraction, upper, lower = 1.0, 1.0, 0.0
    for step in range(_STEPS):
        half = step // 2
        if step == 0:
            term = 1.0
        elif step % 2 == 0:
            term = half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
        else:
            term = -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        lower = 1 / _avoid_zero(1 + term * lower)
        upper = _avoid_zero(1 + term / upper)
        fraction *= upper * lower
        if abs(1 - upper * lower) < 1e-12:
            break
    return min(math.exp(logarithm) * (fraction - 1) / a, 1.0)


def _avoid_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def choose_certain(chances: Sequence[float | None], rate: float = FALSE_RATE) -> list[bool]:
    """Tell which of many differences are certain, so that of those no more than `rate` are expected to be false.

    Benjamini and Hochberg's step-up. Where nothing differs at all, the chance that anything is chosen is `rate`.
    """
    known = sorted(chance for chance in chances if chance is not None)
    held = [chance for rank, chance in enumerate(known, 1) if chance <= rate * rank / len(known)]
    limit = held[-1] if held else -1.0
    return [chance is not None and chance <= limit for chance in chances]

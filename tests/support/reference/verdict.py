"""How a pair went, as data and as the one line that is printed of it."""

from __future__ import annotations

import enum

import attrs

from omn_core.format.scale import render_number
from reference.agreement import compute_agreement
from reference.model import Pair, Tolerance


class State(enum.Enum):
    """The four ways a pair can go."""

    PASS = "PASS"
    """The figures agree."""
    FAIL = "FAIL"
    """They do not, or one of them is not there, or a known defect is none any more."""
    SKIP = "SKIP"
    """This machine cannot run it, or the tool says itself that its figure is not whole."""
    KNOWN = "KNOWN"
    """They do not, by a defect that is known."""


@attrs.frozen
class Verdict:
    """How one pair went. Figures are None where there are none; `reason` is there for everything but a pass."""

    pair: Pair
    state: State
    omn: float | None = None
    tool: float | None = None
    reason: str | None = None

    def __str__(self) -> str:
        head = f"{self.state.value} {self.pair.subject}"
        if self.omn is None or self.tool is None:
            return f"{head}: {self.reason}"
        omn, tool = render_figure(self.omn, self.pair.unit), render_figure(self.tool, self.pair.unit)
        tolerance = render_tolerance(self.pair.tolerance, self.pair.unit)
        text = f"{head}: {omn} / {tool}, {'' if self.state is State.PASS else 'not '}{tolerance}"
        return text if self.reason is None else f"{text}; {self.reason}"


def judge(pair: Pair, omn: float, tool: float) -> Verdict:
    """Hold two figures against each other. A known defect excuses numbers that differ, and fails once they agree."""
    agrees = compute_agreement(omn, tool, pair.tolerance)
    if pair.known_defect is None:
        return Verdict(pair, State.PASS if agrees else State.FAIL, omn, tool)
    if agrees:
        reason = f"they agree, so the known defect is gone: remove known_defect ({pair.known_defect})"
        return Verdict(pair, State.FAIL, reason=reason)
    return Verdict(pair, State.KNOWN, omn, tool, pair.known_defect)


def render_tolerance(tolerance: Tolerance, unit: str) -> str:
    """Say what is allowed: `within 1 % or 64.0 KiB`, `exact`, `within 1 power of two`."""
    if tolerance.exact:
        return "exact"
    if tolerance.log2_buckets is not None:
        return f"within {tolerance.log2_buckets} power{'s' * (tolerance.log2_buckets != 1)} of two"
    bounds = []
    if tolerance.relative is not None:
        bounds.append(f"{tolerance.relative * 100:g} %")
    if tolerance.absolute is not None:
        # A share's band is in shares: 3 % of it would read like a relative one.
        bounds.append(f"{tolerance.absolute:g}" if unit == "ratio" else render_figure(tolerance.absolute, unit))
    side = "" if tolerance.side is None else f" {tolerance.side}"
    return f"within {' or '.join(bounds)}{side}"


def render_figure(value: float, unit: str) -> str:
    """Write a figure as text output does, counts in full."""
    if unit in ("bytes", "ns", "ratio"):
        return render_number(value, unit)
    if float(value).is_integer() or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"

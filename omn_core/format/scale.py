"""Numbers as a person reads them: four significant digits and the unit that keeps them short."""

from __future__ import annotations

import attrs

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_TIME = ("ns", "us", "ms", "s")
_DECIMAL = ("", "k", "M", "G", "T", "P", "E")
_SIGNS = {"count": "", "load": "", "id": "", "celsius": "C", "watts": "W", "joules": "J", "hertz": "Hz"}
_SCALES = {
    "bytes": "bytes",
    "ns": "ns",
    "ratio": "ratio",
    "percent": "percent",
    "count": "count",
    **dict.fromkeys(("load", "id", "celsius", "watts", "joules"), "plain"),
}
EXACT_COUNT = 100_000
"""Below it a count of things shows every digit."""

UNKNOWN_FIGURE = "-"
"""What stands for a figure that is not known, which is never zero."""


@attrs.frozen
class Steps:
    """How numbers of a unit scale: by `size` from each sign to the next, after `factor`.

    `counts` says that whole numbers show every digit below `EXACT_COUNT`, `is_share` that they are shares.
    """

    size: int
    signs: tuple[str, ...]
    factor: int = 1
    counts: bool = False
    is_share: bool = False


def render_number(value: float | None, unit: str, scale: str | None = None) -> str:
    """Return a number in its unit: bytes by 1024, `ns` as time, shares as percentages, anything else by 1000.

    A unit a second (`bytes/s`, `bytes_per_second`) scales as its unit does. An unknown unit stands after the
    number, and scales as `scale` says, the vocabulary's word for it (`UnitMeaning`).
    """
    if value is None:
        return UNKNOWN_FIGURE
    steps = find_steps(unit, scale)
    if steps.counts and isinstance(value, int) and abs(value) < EXACT_COUNT:
        return join_sign(str(value), steps.signs[0])
    scaled, place = float(value) * steps.factor, 0
    while round(abs(scaled), 1) >= steps.size and place < len(steps.signs) - 1:
        scaled, place = scaled / steps.size, place + 1
    return join_sign(_digits(scaled if place else value * steps.factor), steps.signs[place])


def find_steps(unit: str, scale: str | None = None) -> Steps:
    """Return how numbers of a unit scale, and the sign of each step."""
    base, per = (unit[:-2], "/s") if unit.endswith("/s") else (unit, "")
    if base.endswith("_per_second"):
        base, per = base.removesuffix("_per_second"), "/s" + per
    sign = _SIGNS.get(base, base)
    match _SCALES.get(base, scale):
        case "bytes":
            return Steps(1024, tuple(name + per for name in _BINARY))
        case "ns":
            return Steps(1000, tuple(name + per for name in _TIME))
        case "ratio" | "percent" as kind:
            return Steps(1, (f"%{per}",), factor=100 if kind == "ratio" else 1, is_share=True)
        case "plain":
            return Steps(1, (sign + per,))
        case _:
            # A symbol takes the prefix on itself (GHz), a word stands after it (M cycles).
            gap = "" if base in _SIGNS else " "
            signs = (f"{name}{gap}{sign}".strip() + per for name in _DECIMAL)
            return Steps(1000, tuple(signs), counts=True)


def render_count(value: float | None) -> str:
    """Return a count of things: every digit of it up to 99999, then scaled."""
    return render_number(value, "count")


def render_duration(value_ns: float | None) -> str:
    """Return a duration given in nanoseconds."""
    return render_number(value_ns, "ns")


def join_sign(number: str, sign: str) -> str:
    """Return a number and its sign; nothing stands between a number that has none and what it is divided by."""
    return number + sign if sign.startswith("/") or not sign else f"{number} {sign}"


def _digits(value: float) -> str:
    size = abs(value)
    if size >= 1e6:
        return f"{value:.3g}"
    if float(value).is_integer() and size < 10_000:
        return str(int(value))
    if size >= 0.01:
        return f"{value:.{1 if size >= 100 else 2 if size >= 10 else 3}f}"
    return f"{value:.3g}"

"""Numbers as a person reads them: four significant digits and the unit that keeps them short."""

from __future__ import annotations

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_TIME = ("ns", "us", "ms", "s")
_DECIMAL = ("", "k", "M", "G", "T", "P", "E")
_BARE = frozenset({"count", "number"})
_SIGNS = {"celsius": "C", "watts": "W", "joules": "J", "hertz": "Hz", "hz": "Hz", "volts": "V", "amperes": "A"}
_EXACT_COUNT = 100_000

UNKNOWN_FIGURE = "-"
"""What stands for a figure that is not known, which is never zero."""


def render_number(value: float | None, unit: str) -> str:
    """Return a number in its unit: bytes by 1024, `ns` as time, shares as percentages, anything else by 1000.

    A unit a second (`bytes/s`) scales as its unit does. A unit this function does not know stands after the number.
    """
    if value is None:
        return UNKNOWN_FIGURE
    base, per = (unit[:-2], "/s") if unit.endswith("/s") else (unit, "")
    if base == "bytes":
        return _scale(value, 1024, _BINARY) + per
    if base == "ns":
        return _scale(value, 1000, _TIME) + per
    if base == "ratio":
        return f"{_digits(100 * value)} %{per}"
    if base == "percent":
        return f"{_digits(value)} %{per}"
    return _render_other(value, "" if base in _BARE else _SIGNS.get(base, base), per)


def render_count(value: float | None) -> str:
    """Return a count of things: every digit of it up to 99999, then scaled."""
    return render_number(value, "count")


def render_duration(value_ns: float | None) -> str:
    """Return a duration given in nanoseconds."""
    return render_number(value_ns, "ns")


def _render_other(value: float, sign: str, per: str) -> str:
    if isinstance(value, int) and abs(value) < _EXACT_COUNT:
        return f"{value} {sign}{per}".rstrip() if sign else f"{value}{per}"
    text = _scale(value, 1000, _DECIMAL).rstrip()
    return f"{text} {sign}{per}" if sign else f"{text}{per}"


def _scale(value: float, step: int, names: tuple[str, ...]) -> str:
    scaled, place = float(value), 0
    while round(abs(scaled), 1) >= step and place < len(names) - 1:
        scaled, place = scaled / step, place + 1
    return f"{_digits(scaled if place else value)} {names[place]}"


def _digits(value: float) -> str:
    size = abs(value)
    if size >= 1e6:
        return f"{value:.3g}"
    if float(value).is_integer() and size < 10_000:
        return str(int(value))
    if size >= 0.01:
        return f"{value:.{1 if size >= 100 else 2 if size >= 10 else 3}f}"
    return f"{value:.3g}"

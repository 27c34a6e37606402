"""Numbers as a person reads them: four significant digits and the unit that keeps them short."""

from __future__ import annotations

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
_EXACT_COUNT = 100_000

UNKNOWN_FIGURE = "-"
"""What stands for a figure that is not known, which is never zero."""


def render_number(value: float | None, unit: str, scale: str | None = None) -> str:
    """Return a number in its unit: bytes by 1024, `ns` as time, shares as percentages, anything else by 1000.

    A unit a second (`bytes/s`, `bytes_per_second`) scales as its unit does. An unknown unit stands after the
    number, and scales as `scale` says, the vocabulary's word for it (`UnitMeaning`).
    """
    if value is None:
        return UNKNOWN_FIGURE
    base, per = (unit[:-2], "/s") if unit.endswith("/s") else (unit, "")
    if base.endswith("_per_second"):
        base, per = base.removesuffix("_per_second"), "/s" + per
    match _SCALES.get(base, scale):
        case "bytes":
            return _scale(value, 1024, _BINARY) + per
        case "ns":
            return _scale(value, 1000, _TIME) + per
        case "ratio":
            return f"{_digits(100 * value)} %{per}"
        case "percent":
            return f"{_digits(value)} %{per}"
        case "plain":
            number = _digits(value)
        case _:
            number = _scale_decimal(value)
    return _join(number, _SIGNS.get(base, base) + per)


def render_count(value: float | None) -> str:
    """Return a count of things: every digit of it up to 99999, then scaled."""
    return render_number(value, "count")


def render_duration(value_ns: float | None) -> str:
    """Return a duration given in nanoseconds."""
    return render_number(value_ns, "ns")


def _join(number: str, sign: str) -> str:
    return number + sign if sign.startswith("/") or not sign else f"{number} {sign}"


def _scale_decimal(value: float) -> str:
    if isinstance(value, int) and abs(value) < _EXACT_COUNT:
        return str(value)
    return _scale(value, 1000, _DECIMAL).rstrip()


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

"""The rules that a family's default keeps. Each check yields what is wrong, with the path it stands at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from omn_core.catalog.asked import answers, check_emit, check_filter, check_keys, check_mode, choose_value
from omn_core.catalog.check import Complaint, iter_unknown
from omn_core.catalog.shape import WrittenDefault, WrittenRequest, make_request
from omn_core.errors import NotCollected, RequestError
from omn_core.filter import compile_filter
from omn_core.located import Path
from omn_core.model.catalog import BANDS, Entry, UnitMeaning
from omn_core.model.family import DEFAULT_BANDS
from omn_core.model.request import POLLED_MODES, Request
from omn_core.model.rows import EmitRow


def check_default(
    written: WrittenDefault,
    family: str | None,
    entries: Mapping[str, Entry | None],
    units: Mapping[str, UnitMeaning],
    rows: Mapping[str, EmitRow],
) -> Iterator[Complaint]:
    """Yield everything wrong with one default.

    `family` is the plugin's name, None for a folder of several; `entries` are those of the default's own family, None
    for one that breaks a rule itself.
    """
    name = written.default
    if family is not None and name != family:
        yield ("default",), f"{name!r} is not this plugin's family {family!r}"
        return
    if not entries:
        yield ("default",), f"the family {name!r} has no source here"
        return
    yield from _check_bands(written)
    for band, requests in written.bands.items():
        for index, request in enumerate(requests):
            path: Path = (band, index)
            if request in requests[:index]:
                yield path, f"{request.source} is asked the same way twice in the band {band}"
            for reason in _iter_faults(request, band, name, entries, units, rows):
                yield path, reason


def _check_bands(written: WrittenDefault) -> Iterator[Complaint]:
    if written.none is not None:
        if written.bands:
            yield ("none",), f"a default that composes something has no 'none', and this one has {_words(written)}"
        elif not written.none.strip():
            yield ("none",), "a family without a default says why"
    elif not written.bands:
        yield (
            (),
            f"a default composes at least one band ({', '.join(DEFAULT_BANDS)}), or says in 'none' why it does not",
        )
    for band, requests in written.bands.items():
        if not requests:
            yield (band,), f"the band {band} composes nothing; leave it out"


def _words(written: WrittenDefault) -> str:
    return " and ".join(written.bands)


def _iter_faults(
    written: WrittenRequest,
    band: str,
    family: str,
    entries: Mapping[str, Entry | None],
    units: Mapping[str, UnitMeaning],
    rows: Mapping[str, EmitRow],
) -> Iterator[str]:
    """Yield the first thing wrong with one request, and what it costs where that is more than its band."""
    if not written.source.startswith(f"{family}."):
        yield f"a default asks its own family's sources alone, and {written.source!r} is none of {family!r}"
        return
    entry = entries.get(written.source)
    if entry is None:
        yield from (reason for _, reason in iter_unknown((), "source", [written.source], entries))
        return
    try:
        request = make_request(written)
        _check_request(request, written.mode, entry, units, rows)
    except NotCollected:
        pass  # an emit that the entry declares and that another distribution makes
    except RequestError as error:
        yield str(error)
        return
    except ValueError as error:
        yield f"its interval: {error}"
        return
    yield from _check_cost(request, written.mode, entry, band)


def _check_request(
    request: Request, mode: str, entry: Entry, units: Mapping[str, UnitMeaning], rows: Mapping[str, EmitRow]
) -> None:
    """Raise RequestError for what would be refused of a person who asked it."""
    check_mode(mode, entry)
    value, adds_up = choose_value(request, entry, mode, units)
    check_keys(request, entry)
    if request.filter is not None:
        check_filter(compile_filter(request.filter), entry, value)
    if request.interval_ns is not None and mode not in POLLED_MODES:
        raise RequestError(f"an interval means something in mode poll alone, and this is mode {mode}")
    if not request.emits:
        raise RequestError(f"{entry.id} is asked for nothing", f"mode {mode} has {', '.join(entry.emits[mode])}")
    for emit in request.emits:
        check_emit(emit, entry, mode, rows, None if adds_up else value)


def _check_cost(request: Request, mode: str, entry: Entry, band: str) -> Iterator[str]:
    """A source stands in a band that the cheapest backend which answers the request can keep."""
    serving = [backend for backend in entry.chain if answers(request, mode, entry, backend)]
    if not serving:
        yield f"no backend of {entry.id} answers this in mode {mode}"
        return
    cheapest = min(serving, key=lambda backend: BANDS.index(backend.cost))
    if BANDS.index(cheapest.cost) > BANDS.index(band):
        yield (
            f"{entry.id} costs {cheapest.cost} in mode {mode} at the least ({cheapest.id}), more than the band {band}"
        )

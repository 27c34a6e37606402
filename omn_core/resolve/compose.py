"""A family's name into the requests that it stands for: its default's band, on the target that a person named."""

from __future__ import annotations

import shlex

import attrs

from omn_core.errors import RequestError
from omn_core.model.catalog import Catalog
from omn_core.model.family import DEFAULT_BANDS, FamilyDefault, find_band_fault
from omn_core.model.request import POLLED_MODES, Composition, LeftOut, Request
from omn_core.model.target import Target
from omn_core.plugins import Registry
from omn_core.resolve.complete import find_entry
from omn_core.resolve.fit import Fit, spell_kind


@attrs.frozen
class FamilyRequest:
    """What a person says beside a family's name. `launch` is a program beside another target."""

    family: str
    band: str | None = None
    target: Target | None = None
    launch: tuple[str, ...] | None = None
    interval_ns: int | None = None


def compose(asked: FamilyRequest, catalog: Catalog, registry: Registry) -> tuple[tuple[Request, ...], Composition]:
    """Return the requests that a family's name asks of a target, and how they were chosen.

    Raises NotCollected for a family that is not installed; RequestError for one nobody knows, one without a default,
    a band it does not reach down to, a target that is not named or that nothing in the band serves, and an interval
    where nothing is polled.
    """
    default = find_default(asked.family, catalog, registry)
    band, said = _choose_band(default, asked.band)
    requests = default.bands[band]
    fit = Fit(catalog, registry, asked.band or band)
    target, picked = _choose_target(asked, requests, fit)
    kept, unserved = [], []
    for request in requests:
        reason = fit.find_misfit(request, target.kind)
        mine = attrs.evolve(request, target=target, interval_ns=_choose_interval(request, asked.interval_ns))
        if reason is None:
            kept.append(mine)
        else:
            unserved.append(LeftOut(mine, reason))
    if not kept:
        raise _refuse_target(asked, target, default, band, fit)
    if asked.interval_ns is not None and not any(request.mode in POLLED_MODES for request in kept):
        raise RequestError(f"--interval means something in mode poll alone, and {asked.family} polls nothing here")
    return tuple(kept), Composition(asked.family, band, (*said, *picked), tuple(unserved))


def find_default(family: str, catalog: Catalog, registry: Registry) -> FamilyDefault:
    """Return the default of a family that composes something. Raises NotCollected or RequestError, see `compose`."""
    if family not in catalog.families():
        find_entry(family, catalog, registry)  # raises: it is no source, for it has no dot
    default = catalog.defaults.get(family)
    sources = f"its sources are {', '.join(entry.id for entry in catalog.entries.values() if entry.family == family)}"
    if default is None:
        raise RequestError(f"{family!r} is a family, and it declares no default", sources)
    if default.none is not None:
        raise RequestError(f"{family!r} is a family without a default: {default.none}", sources)
    return default


def _choose_band(default: FamilyDefault, asked: str | None) -> tuple[str, tuple[str, ...]]:
    declared = list(default.bands)
    if asked is None:
        return declared[0], ()
    fault = find_band_fault(asked)
    if fault is not None:
        raise fault
    within = [band for band in declared if DEFAULT_BANDS.index(band) <= DEFAULT_BANDS.index(asked)]
    if not within:
        raise RequestError(
            f"{default.family} asks nothing within the band {asked}", f"its cheapest is --cost {declared[0]}"
        )
    if within[-1] == asked:
        return asked, ()
    return within[-1], (f"{default.family} has no band {asked}; {within[-1]} is its dearest below",)


def _choose_target(asked: FamilyRequest, requests: tuple[Request, ...], fit: Fit) -> tuple[Target, tuple[str, ...]]:
    if asked.target is not None:
        return asked.target, ()
    kinds = fit.list_kinds(requests)
    if kinds == ("system",):
        return Target("system"), ("the machine is measured, the one target that is served",)
    spelled = ", ".join(map(spell_kind, kinds))
    ends = "; one that does not end by itself takes a --duration, or a program beside it" if "system" in kinds else ""
    raise RequestError(f"nothing says what {asked.family} is to be measured of", f"name one of {spelled}{ends}")


def _choose_interval(request: Request, asked_ns: int | None) -> int | None:
    return asked_ns if asked_ns is not None and request.mode in POLLED_MODES else request.interval_ns


def _refuse_target(asked: FamilyRequest, target: Target, default: FamilyDefault, band: str, fit: Fit) -> RequestError:
    """Name what would serve: a dearer band on the same target, the machine while the program runs, or the targets."""
    what = "a launched program" if target.kind == "launch" else f"the target {target}"
    reason = f"nothing that {asked.family} asks at cost {band} serves {what}"
    bands = list(default.bands)
    for dearer in bands[bands.index(band) + 1 :]:
        if target.kind in attrs.evolve(fit, band=dearer).list_kinds(default.bands[dearer]):
            return RequestError(reason, f"--cost {dearer} has something that does")
    kinds = fit.list_kinds(default.bands[band])
    if target.kind == "launch" and "system" in kinds:
        cost = "" if asked.band is None else f" --cost {asked.band}"
        spelled = f"omn {asked.family}{cost} --system -- {shlex.join(target.value)}"
        return RequestError(reason, f"the machine while the program runs is '{spelled}'")
    return RequestError(reason, f"it serves {', '.join(map(spell_kind, kinds))}")

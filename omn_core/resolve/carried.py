"""Whether a backend's events carry the keys and fields that a request names, and what to say where they do not."""

from __future__ import annotations

from omn_core.errors import MachineRefused, NotCollected, Refused, RequestError
from omn_core.model.catalog import Backend
from omn_core.model.resolved import Link, LinkState
from omn_core.plugins import Registry
from omn_core.resolve.complete import Completed
from omn_core.resolve.judge import UNFIT, Judged, judge
from omn_core.resolve.probes import ProbeTable

_MACHINE = frozenset({LinkState.MISSING, LinkState.RESTRICTED})


def find_lacking(completed: Completed, backend: Backend) -> Link | None:
    """Return what stands in a backend's way that would do but for a key or a field its events lack."""
    entry = completed.entry
    keys = [key for key in completed.request.keys if key not in entry.keys_of(backend)]
    if keys:
        return Link(backend.id, LinkState.KEYS, f"its events carry no {' and no '.join(keys)}")
    fields = [field for field in _list_fields(completed) if not _has_field(completed, backend, field)]
    if _lacks_value(completed, backend):
        fields.append(completed.value)
    if fields:
        return Link(backend.id, LinkState.FILTER, f"its events carry no {' and no '.join(fields)}")
    return None


def check_carried(completed: Completed, backend: Backend, registry: Registry, probes: ProbeTable) -> None:
    """Refuse a key or field that the chosen backend's events lack, naming the backend that carries it."""
    entry = completed.entry
    for key in completed.request.keys:
        if key not in entry.keys_of(backend):
            carriers = [other for other in entry.chain if key in entry.keys_of(other)]
            raise _refuse_carried(completed, f"key {key!r}", backend, carriers, registry, probes)
    if _lacks_value(completed, backend):
        carriers = [other for other in entry.chain if completed.value in entry.filter_fields_of(other)]
        raise _refuse_carried(completed, f"value {completed.value!r}", backend, carriers, registry, probes)
    for field in _list_fields(completed):
        if not _has_field(completed, backend, field):
            carriers = [other for other in entry.chain if field in entry.filter_fields_of(other)]
            raise _refuse_carried(completed, f"field {field!r}", backend, carriers, registry, probes)


def _list_fields(completed: Completed) -> list[str]:
    """The fields that the emits divide by and that the filter names."""
    asked = [emit.attribute for emit in completed.emits if emit.attribute is not None]
    return asked + list(() if completed.filter is None else completed.filter.fields)


def _has_field(completed: Completed, backend: Backend, field: str) -> bool:
    return field in (*completed.entry.filter_fields_of(backend), "value", "kind", completed.value)


def _lacks_value(completed: Completed, backend: Backend) -> bool:
    """Tell whether the value is another attribute than the source's own, which other backends declare and this not."""
    entry = completed.entry
    if completed.value == entry.value or completed.value in entry.filter_fields_of(backend):
        return False
    return any(completed.value in entry.filter_fields_of(other) for other in entry.chain)


def _find_remedy(completed: Completed, carrier: Judged) -> str | None:
    """Return what would have a carrier serve: what the machine lacks, or a mode that it has; None for neither."""
    if carrier.link.state is not LinkState.MODE:
        return carrier.link.remedy
    modes = completed.entry.modes_of(carrier.backend)
    return f"ask it in another mode: --mode {' or --mode '.join(modes)}"


def _refuse_carried(
    completed: Completed,
    what: str,
    chosen: Backend,
    carriers: list[Backend],
    registry: Registry,
    probes: ProbeTable,
) -> Refused:
    """A carrier this machine can run is named to be pinned; one nobody wrote comes before one the machine lacks."""
    said = f"{completed.entry.id} is served by {chosen.id}, whose events carry no {what}"
    judged = [judge(completed, carrier, registry, probes) for carrier in carriers]
    for one in judged:
        if one.link.state in (LinkState.AVAILABLE, LinkState.UNKNOWN):
            return RequestError(f"{said}; {one.backend.id} carries it", f"pin it with --backend force:{one.backend.id}")
    for states, make in (({LinkState.UNCOLLECTED}, NotCollected), (_MACHINE, MachineRefused), (UNFIT, RequestError)):
        for one in judged:
            if one.link.state in states:
                reason = f"{said}; {one.backend.id} would carry it, and does not serve: {one.link.reason}"
                return make(reason, _find_remedy(completed, one))
    return RequestError(f"{said}, and no backend of its chain does")

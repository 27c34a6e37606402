"""A request onto its mechanism: what was chosen, what was passed over, and why."""

from __future__ import annotations

import enum
from typing import Any

import attrs

from omn_core.model.catalog import Backend, Entry
from omn_core.model.request import EmitSpec, Request, Session
from omn_core.model.rows import CollectorRow
from omn_core.model.target import Target


class LinkState(enum.Enum):
    """Why a backend of the chain serves or does not: selected, or the first thing that stood in its way."""

    SELECTED = "selected"
    AVAILABLE = "available"
    MISSING = "missing"
    RESTRICTED = "restricted"
    UNKNOWN = "unknown"
    UNCOLLECTED = "uncollected"
    MODE = "mode"
    EMITS = "emits"
    TARGET = "target"
    KEYS = "keys"
    FILTER = "filter"
    BAND = "band"


@attrs.frozen
class Link:
    """One backend of the chain as the resolver saw it. `reason` is a clause; `remedy` what would mend it."""

    backend: str
    state: LinkState
    reason: str | None = None
    remedy: str | None = None


@attrs.frozen
class ResolvedRequest:
    """A request with nothing left open, on the backend that serves it.

    `adds_up` says whether its values sum to a total (a level never does); `chain` is the chain as walked; `unverified`
    the requirements of the chosen backend that could not be checked; `defaulted` what nobody asked for and the catalog
    left no choice about; `filter_applied_by` is `kernel` or `userspace`, None without a filter; `scale` is the
    vocabulary's word for how text scales the unit, None where it has none.
    """

    request: Request
    entry: Entry
    backend: Backend
    collector: CollectorRow
    chain: tuple[Link, ...]
    mode: str
    emits: tuple[EmitSpec, ...]
    target: Target
    value: str
    unit: str
    adds_up: bool
    interval_ns: int | None
    pinned: bool = False
    unverified: tuple[str, ...] = ()
    defaulted: tuple[str, ...] = ()
    degraded: tuple[str, ...] = ()
    filter_applied_by: str | None = None
    scale: str | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that divide the answer into series."""
        return self.request.keys

    def shows(self, attribute: str) -> bool:
        """Tell whether the answer can show an attribute: as a key, in the filter, by an emit or in raw rows.

        A collector asks it of an attribute that costs a reading of its own.
        """
        if attribute in (self.value, *self.keys) or attribute in (self.request.filter or ""):
            return True
        return any(emit.attribute == attribute or emit.name == "raw" for emit in self.emits)


@attrs.frozen
class ResolvedSession:
    """A session whose every request has its backend, beside the machine it was resolved on."""

    session: Session
    requests: tuple[ResolvedRequest, ...]
    environment: dict[str, Any]

"""A request onto its mechanism: what was chosen, what was passed over, and why."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from omn_core.model.catalog import Backend, Entry
from omn_core.model.request import EmitSpec, LeftOut, Request, Session
from omn_core.model.rows import CollectorRow
from omn_core.model.stacks import STACK_KEYS
from omn_core.model.target import Target
from omn_core.model.walks import WalkChoice

if TYPE_CHECKING:
    from omn_core.model.collector import BoundTarget


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


@attrs.frozen(repr=False)
class Link:
    """One backend of the chain as the resolver saw it. `reason` is a clause; `remedy` what would mend it."""

    backend: str
    state: LinkState
    reason: str | None = None
    remedy: str | None = None


@attrs.frozen(repr=False)
class ResolvedRequest:
    """A request with nothing left open, on the backend that serves it.

    `adds_up` says whether its values sum to a total (a level never does); `chain` is the chain as walked; `unverified`
    the requirements of the chosen backend that could not be checked; `defaulted` what nobody asked for and the catalog
    left no choice about; `filter_fields` the fields that its filter names, and `filter_applied_by` who applies it,
    `kernel` or `userspace`, None without one; `scale` the vocabulary's word for how text scales the unit, None where it
    has none; `labels` the attribute that says what a key is called, of the keys that divide the answer where none of
    them is it; `apart` the vocabulary's keys whose values make no sum. `target` is the cgroup of a container that was
    asked for; `bound` is where it was found, None for one that the run itself finds. `over_band` is the cost band that
    was asked where this machine serves the request only through a backend that declares more. `walk` is how its stacks
    are walked, None where its events carry none. `rungs` are what a budget may move it onto, dearest first, each with
    those after it; `passed_rungs` says of what else was cheaper why it is none.
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
    filter_fields: tuple[str, ...] = ()
    filter_applied_by: str | None = None
    scale: str | None = None
    labels: Mapping[str, str] = attrs.field(factory=dict)
    apart: tuple[str, ...] = ()
    bound: BoundTarget | None = None
    over_band: str | None = None
    walk: WalkChoice | None = None
    rungs: tuple[ResolvedRequest, ...] = ()
    passed_rungs: tuple[str, ...] = ()

    @property
    def asked_target(self) -> Target:
        """The target as it was asked for: a container, where `target` is its cgroup."""
        return self.request.target or self.target

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that divide the answer into series."""
        return self.request.keys

    @property
    def stack_keys(self) -> tuple[str, ...]:
        """What is asked of the events' stacks: as a key, by an emit or in the filter."""
        return tuple(name for name in STACK_KEYS if self.is_divided_by(name))

    def is_divided_by(self, name: str) -> bool:
        """Tell whether a key, the filter or an emit names something, so that a reading needs a row for each of it.

        Raw rows alone divide nothing: a series over time must not mix the parts of an instant with their whole.
        """
        return name in (*self.keys, *self.filter_fields) or any(emit.attribute == name for emit in self.emits)

    def begins_held(self, target: BoundTarget) -> bool:
        """Tell whether a target's program is held when it is attached to, and runs from its execve on.

        Where the request's own window starts later it runs already then.
        """
        window = self.request.window
        return target.launched and not (window and window.start_ns)

    def shows(self, attribute: str) -> bool:
        """Tell whether the answer can show an attribute: as a key or its label, in the filter, by an emit, in raw rows.

        A collector asks it of an attribute that costs a reading of its own.
        """
        is_listed = any(emit.name == "raw" for emit in self.emits)
        is_label = attribute in self.labels.values()
        return is_listed or is_label or attribute == self.value or self.is_divided_by(attribute)


@attrs.frozen(repr=False)
class ResolvedSession:
    """A session whose every request has its backend, beside the machine it was resolved on."""

    session: Session
    requests: tuple[ResolvedRequest, ...]
    environment: dict[str, Any]

    def leave_out(self, refused: Mapping[int, str]) -> ResolvedSession:
        """Return the session of a composition without the requests at these places, for these reasons."""
        gone = tuple(LeftOut(self.requests[place].request, reason) for place, reason in refused.items())
        kept = tuple(request for place, request in enumerate(self.requests) if place not in refused)
        return attrs.evolve(self, session=self.session.leave_out(gone), requests=kept)

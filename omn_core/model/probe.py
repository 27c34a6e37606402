"""What a machine answers when it is asked whether it has something, and the string that asks."""

from __future__ import annotations

import enum
from typing import Any

import attrs


class State(enum.Enum):
    """The four answers. Unknown never counts as available, and restricted is not absent."""

    AVAILABLE = "available"
    MISSING = "missing"
    RESTRICTED = "restricted"
    UNKNOWN = "unknown"


@attrs.frozen
class Probe:
    """One answer: its state, the reason in a lowercase clause, and what would mend it where something would."""

    state: State
    reason: str | None = None
    remedy: str | None = None


AVAILABLE = Probe(State.AVAILABLE)


@attrs.frozen
class Need:
    """A requirement of a backend, parsed when the catalog loads.

    `text` is the catalog's spelling (`path:/proc/vmstat`), `kind` the requirement class that a plugin declared
    (`path`, `kernel>=`, `cap`) and `argument` what follows it (empty where nothing does).
    """

    text: str
    kind: str
    argument: str = ""


@attrs.frozen
class ProbeContext:
    """What a probe or a binder is handed.

    The kind of target it answers for (None for a listing), what stands for `/`, and for a probe the `place` that a
    binder found for the target (a cgroup, a device), None for a target that is no place, and the `tasks` that are named
    as the target by their numbers, of which any may have ended.
    """

    target: str | None = None
    sysroot: str = "/"
    place: Any = None
    tasks: tuple[int, ...] = ()

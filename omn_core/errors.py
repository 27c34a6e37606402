"""What can go wrong, and whose it is.

Every error holds its parts as fields; the command line renders them. A refusal says whose gap it is: the request's
(exit 2, wrong on every machine), the machine's (exit 1, another machine or another privilege would serve) or the
build's (exit 3, nothing installed here collects it).
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

import attrs

PLUGIN_FAULTS = (Exception, SystemExit)
"""What a guard catches around a plugin's code: whatever it raises, and an exit that is not its own to make."""


class Whose(enum.Enum):
    """Whose gap a refusal is; the value is the exit code."""

    REQUEST = 2
    MACHINE = 1
    BUILD = 3


class OmnError(Exception):
    """Anything omn raises on purpose. `exit_code` is what the command line ends with."""

    exit_code = 1


@attrs.define(eq=False)
class Refused(OmnError):
    """A measurement that will not be taken: `reason` is one lowercase sentence, `remedy` what would mend it."""

    whose: Whose
    reason: str
    remedy: str | None = None

    def __attrs_post_init__(self) -> None:
        super().__init__(self.reason)

    @property
    def exit_code(self) -> int:  # type: ignore[override]  # a refusal's code is its owner's
        """The owner's code."""
        return self.whose.value

    def __str__(self) -> str:
        return self.reason if self.remedy is None else f"{self.reason}; {self.remedy}"


def name_refusal(name: str, refused: Refused) -> Refused:
    """Return a refusal with the name of the request it is of before it: where a session has several, which one."""
    return Refused(refused.whose, f"{name}: {refused.reason}", refused.remedy)


class RequestError(Refused, ValueError):
    """The request is wrong on every machine (exit 2)."""

    def __init__(self, reason: str, remedy: str | None = None) -> None:
        Refused.__init__(self, Whose.REQUEST, reason, remedy)


class MachineRefused(Refused):
    """This machine, or these privileges, cannot serve a request that another could (exit 1)."""

    def __init__(self, reason: str, remedy: str | None = None) -> None:
        super().__init__(Whose.MACHINE, reason, remedy)


class NotCollected(Refused, LookupError):
    """The request is valid and nothing installed here serves it (exit 3)."""

    def __init__(self, reason: str, remedy: str | None = None) -> None:
        Refused.__init__(self, Whose.BUILD, reason, remedy)


@attrs.define(eq=False)
class RunFailed(OmnError):
    """A run that started and could not be finished; `written` says whether its results reached their place."""

    reason: str
    written: bool = False

    def __attrs_post_init__(self) -> None:
        super().__init__(self.reason)

    def __str__(self) -> str:
        return self.reason


@attrs.define(eq=False)
class CatalogError(OmnError, ValueError):
    """A catalog that does not load, with the place: `path`, `line` (1-based) and the entry when one is known."""

    path: str
    line: int | None
    reason: str
    entry: str | None = None

    exit_code = 2

    def __attrs_post_init__(self) -> None:
        super().__init__(str(self))

    def __str__(self) -> str:
        place = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{place}: {self.reason}" if self.entry is None else f"{place}: {self.entry}: {self.reason}"


@attrs.define(eq=False)
class PluginError(OmnError):
    """A plugin that broke its contract, named with its distribution."""

    name: str
    distribution: str | None
    reason: str

    exit_code = 3

    def __attrs_post_init__(self) -> None:
        super().__init__(str(self))

    def __str__(self) -> str:
        return f"plugin {self.name!r} ({self.distribution or 'no distribution'}): {self.reason}"


_FIRST_TO_FIX = (Whose.REQUEST, Whose.BUILD, Whose.MACHINE)


def combine_refusals(refusals: Sequence[Refused]) -> Refused:
    """Return one refusal that names every different one of these, the first to fix deciding whose it is."""
    different = {(one.whose, one.reason, one.remedy): one for one in refusals}
    ordered = sorted(different.values(), key=lambda one: _FIRST_TO_FIX.index(one.whose))
    if len(ordered) == 1:
        return ordered[0]
    said = "\n".join(f"  {one}" for one in ordered)
    return Refused(ordered[0].whose, f"{len(ordered)} things stand in the way:\n{said}")

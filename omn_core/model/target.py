"""What a request is about: a program, a process, a cgroup, the machine. The kinds are a closed list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from omn_core.errors import RequestError

KINDS = ("launch", "pid", "tid", "cgroup", "container", "system", "cpu", "dev", "iface", "gpu")
"""Every kind of target, as the catalog, the command line and a session file spell it."""

SCOPES = {
    "launch": "process",
    "pid": "process",
    "tid": "thread",
    "cgroup": "cgroup",
    "container": "cgroup",
    "system": "system",
    "cpu": "cpu",
    "dev": "device",
    "iface": "interface",
    "gpu": "device",
}
"""The scope that a request on each kind of target reports, unless the backend narrows it."""

PLACES = frozenset({"cgroup", "container", "cpu", "dev", "iface", "gpu"})
"""The kinds that stand still, found before a backend is chosen for them. The run that needs a process holds it."""

_MANY_NUMBERS = frozenset({"pid", "cpu"})
_ONE_NUMBER = frozenset({"tid"})


@attrs.frozen
class Target:
    """One target: its kind, and what names it.

    `value` is a tuple of program arguments for `launch`, a tuple of numbers for `pid` and `cpu`, one number for `tid`,
    None for `system`, and a name or path for the rest.
    """

    kind: str
    value: Any = None

    @property
    def scope(self) -> str:
        """The scope a request on this target reports."""
        return SCOPES[self.kind]

    @property
    def tasks(self) -> tuple[int, ...]:
        """The processes or the thread that it names by number; none for a target of another kind."""
        if self.kind == "tid":
            return (self.value,)
        return self.value if self.kind == "pid" else ()

    def to_plain(self) -> dict[str, Any]:
        """Return the spelling a session file holds: one field, the kind, with its value (`{"pid": [12]}`)."""
        if self.kind == "system":
            return {"system": True}
        return {self.kind: list(self.value) if isinstance(self.value, tuple) else self.value}

    def __str__(self) -> str:
        """Return the spelling of the command line, on one line and printable whatever the names are."""
        from omn_core.names import render_printable

        if self.kind == "system":
            return "--system"
        if self.kind == "launch":
            import shlex

            return render_printable("-- " + shlex.join(self.value))
        value = ",".join(map(str, self.value)) if isinstance(self.value, tuple) else self.value
        return render_printable(f"--{self.kind} {value}")


def parse_target(plain: Mapping[str, Any]) -> Target:
    """Make a target from a session's spelling. Raises RequestError when it names no kind, several, or a wrong value."""
    if not isinstance(plain, Mapping) or len(plain) != 1:
        raise RequestError(f"a target names exactly one of {', '.join(KINDS)}, not {plain!r}")
    kind, value = next(iter(plain.items()))
    if kind not in KINDS:
        raise RequestError(f"{kind!r} is no kind of target; the kinds are {', '.join(KINDS)}")
    return Target(kind, _parse_value(kind, value))


def _parse_value(kind: str, value: Any) -> Any:
    if kind == "system":
        if value is not True:
            raise RequestError(f"target system is written 'system: true', not {value!r}")
        return None
    if kind == "launch":
        return parse_arguments(value)
    if kind in _MANY_NUMBERS:
        numbers = value if isinstance(value, list | tuple) else [value]
        if not numbers:
            raise RequestError(f"target {kind} names nothing")
        return tuple(dict.fromkeys(_parse_number(kind, number) for number in numbers))
    if kind in _ONE_NUMBER:
        return _parse_number(kind, value)
    if not isinstance(value, str) or not value or "\0" in value:
        raise RequestError(f"target {kind} is a name or a path, not {value!r}")
    return value


def parse_arguments(value: Any) -> tuple[str, ...]:
    """Read a program's argument list. Raises RequestError for anything but a non-empty list of strings."""
    if value in ([], ()):
        raise RequestError("no program is named: a program is a list of strings, its name first")
    if not isinstance(value, list | tuple) or not all(isinstance(part, str) for part in value):
        raise RequestError(f"a program is a list of strings, its name first, not {value!r}")
    if any("\0" in part for part in value) or not value[0]:
        raise RequestError("a program's arguments hold no NUL byte, and its name is not empty")
    return tuple(value)


def _parse_number(kind: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < (0 if kind == "cpu" else 1):
        raise RequestError(f"target {kind} is a positive number, not {value!r}")
    return value

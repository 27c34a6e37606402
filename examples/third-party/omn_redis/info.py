"""What INFO says, read into numbers."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

_COMMAND = "cmdstat_"


@attrs.frozen
class CommandCount:
    """What a server counted of one command since it started: calls, the time they took, and those that failed.

    `failed` ran and returned an error; `rejected` were refused before they ran. Both are None before Redis 6.2,
    which does not count them.
    """

    calls: int
    exec_ns: int
    failed: int | None
    rejected: int | None


def parse_info(text: bytes) -> dict[str, str]:
    """Return the `name:value` lines of a reply; headings (`# Memory`) and anything else are passed over."""
    found = {}
    for line in text.decode("utf-8", "replace").splitlines():
        name, colon, value = line.partition(":")
        if colon and not name.startswith("#"):
            found[name] = value.strip()
    return found


def parse_commands(info: Mapping[str, str]) -> dict[str, CommandCount]:
    """Return the counts of each command in `INFO commandstats`, by its name. Raises ValueError for another form."""
    return {
        name.removeprefix(_COMMAND): _parse_count(value) for name, value in info.items() if name.startswith(_COMMAND)
    }


def _parse_count(value: str) -> CommandCount:
    fields = dict(part.partition("=")[::2] for part in value.split(","))
    failed, rejected = fields.get("failed_calls"), fields.get("rejected_calls")
    return CommandCount(
        int(fields["calls"]),
        int(fields["usec"]) * 1000,
        None if failed is None else int(failed),
        None if rejected is None else int(rejected),
    )


def get_number(info: Mapping[str, str], name: str) -> int:
    """Return a counter by name. Raises ValueError naming it where the server does not state it."""
    if name not in info:
        raise ValueError(f"INFO states no {name}")
    return int(info[name])

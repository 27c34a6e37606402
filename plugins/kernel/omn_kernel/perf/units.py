"""Events of performance units, by the names that the kernel lists them under.

/sys/bus/event_source/devices/UNIT/{type,cpumask,format/TERM,events/NAME,events/NAME.scale,events/NAME.unit}:
Documentation/ABI/testing/sysfs-bus-event_source-devices-events and -format.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import attrs

from omn_kernel.perf.events import PerfEvent, Raised
from omn_kernel.polled import place, read_file
from omn_kernel.probes.tracepoints import DEVICES, read_unit_type
from omn_kernel.sysfs import parse_number_list

_FORMAT = re.compile(r"config:(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)")


@attrs.frozen(repr=False)
class UnitEvent:
    """An event of a unit: what it is opened by, and what one of its counts is worth (`scale`), in which `unit`.

    Where the kernel states neither, a count is 1 of what the event is called.
    """

    event: PerfEvent
    scale: float = 1.0
    unit: str | None = None


def parse_terms(content: bytes) -> dict[str, int]:
    """Parse an event's terms: `event=0x02,umask=0x1`. A term that is alone is 1. Raises ValueError for another."""
    terms = (term.partition("=") for term in content.decode().strip().split(","))
    return {name: int(value, 0) if sign else 1 for name, sign, value in terms}


def compute_config(terms: Mapping[str, int], formats: Mapping[str, str]) -> int:
    """Compute the number that an event is opened by: each term's value laid into the bits that its format names.

    A format is `config:0-7,32-35`, the value's lowest bits first. Raises ValueError for one that is of another word.
    """
    config = 0
    for name, value in terms.items():
        spelled = _FORMAT.fullmatch(formats[name])
        if spelled is None:
            raise ValueError(f"the term {name} is laid out as {formats[name]!r}")
        rest = value
        for part in spelled[1].split(","):
            first, _, last = part.partition("-")
            width = int(last or first) - int(first) + 1
            config |= (rest & (1 << width) - 1) << int(first)
            rest >>= width
    return config


def read_unit_event(sysroot: str, unit: str, name: str) -> UnitEvent:
    """Read an event of a unit. Raises FileNotFoundError where either is not there, ValueError as the parsers do."""
    folder = f"{DEVICES}/{unit}"
    kind, terms = read_unit_type(sysroot, unit), parse_terms(read_file(sysroot, f"{folder}/events/{name}"))
    formats = {term: read_file(sysroot, f"{folder}/format/{term}").decode().strip() for term in terms}
    # A count of the unit, whatever runs on its cpu: the kernel's own code is no part that could be left out.
    event = PerfEvent(kind, compute_config(terms, formats), f"event {name} of the {unit} unit", Raised.CLOCK)
    scale, spelled = (_find_text(sysroot, f"{folder}/events/{name}.{one}") for one in ("scale", "unit"))
    return UnitEvent(event, float(scale) if scale else 1.0, spelled)


def list_unit_events(sysroot: str, unit: str) -> list[str]:
    """List the events of a unit by their names; empty where the machine has no such unit."""
    try:
        names = os.listdir(place(sysroot, f"{DEVICES}/{unit}/events"))
    except OSError:
        return []
    return sorted(name for name in names if "." not in name)


def find_unit_cpus(sysroot: str, unit: str) -> tuple[int, ...] | None:
    """Find the cpus on which a unit is counted, one of each core or package; None for one that every cpu has."""
    listed = _find_text(sysroot, f"{DEVICES}/{unit}/cpumask")
    return None if listed is None else parse_number_list(listed.encode())


def _find_text(sysroot: str, path: str) -> str | None:
    try:
        return read_file(sysroot, path).decode().strip()
    except FileNotFoundError:
        return None

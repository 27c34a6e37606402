"""The records of classic tracepoints, as tracefs describes them: events/CATEGORY/NAME/format."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import attrs

from omn_core.api import MachineRefused
from omn_kernel.mounts import find_tracefs
from omn_kernel.polled import read_file

_FIELD = re.compile(rb"\tfield:([^;]*);\toffset:(\d+);\tsize:(\d+);\tsigned:([01]);")
_SYMBOL = re.compile(rb'\{ (\d+), "(\w+)" \}')
_NAME = re.compile(r"(\w+)(?:\[\w*\])?$")


@attrs.frozen(repr=False)
class RecordField:
    """Where a field lies in a record: `offset` bytes from its start, `size` bytes wide."""

    offset: int
    size: int
    is_signed: bool


def parse_format(content: bytes) -> dict[str, RecordField]:
    """Parse a format file into its fields by name. A line that is no field is passed over."""
    fields = {}
    for declaration, offset, size, signed in _FIELD.findall(content):
        name = _NAME.search(declaration.decode("utf-8", "replace"))
        if name is not None:
            fields[name[1]] = RecordField(int(offset), int(size), signed == b"1")
    return fields


def is_described(name: str) -> bool:
    """Tell whether tracefs describes a tracepoint's record; of a kernel that has no such tracepoint it does not."""
    mounted = find_tracefs("/")
    return mounted is not None and os.path.exists(f"{mounted}/events/{name}/format")


def parse_symbols(content: bytes, field: str) -> dict[int, str]:
    """Parse what a format file calls the numbers of a field (__print_symbolic); nothing of one that has no names."""
    _, found, told = content.partition(f"__print_symbolic(REC->{field},".encode())
    return {int(number): name.decode() for number, name in _SYMBOL.findall(told.partition(b")")[0])} if found else {}


def read_symbols(name: str, field: str) -> Mapping[int, str]:
    """Read what a tracepoint calls the numbers of a field. Raises MachineRefused where it is not there."""
    return parse_symbols(_read(name), field)


def read_format(name: str) -> Mapping[str, RecordField]:
    """Read the fields of a tracepoint's record (`sched/sched_switch`). Raises MachineRefused where it is not there."""
    return parse_format(_read(name))


def _read(name: str) -> bytes:
    mounted = find_tracefs("/")
    if mounted is None:
        raise MachineRefused("tracefs is not mounted", "mount it as root: mount -t tracefs tracefs /sys/kernel/tracing")
    try:
        return read_file("/", f"{mounted}/events/{name}/format")
    except OSError as error:
        raise MachineRefused(f"the record of tracepoint {name} cannot be read: {error.strerror}") from None

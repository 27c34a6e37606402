"""From a process to a connection with the Redis server that it is.

A process's listening sockets are those of its descriptors (`/proc/<pid>/fd`) whose inodes stand in the state LISTEN in
`/proc/<pid>/net/tcp` and `tcp6` (proc(5)). Whatever answers there must state the process's own number in `INFO server`:
a port can lie in another network namespace, where the same address reaches somebody else.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator

from omn_core.api import MachineRefused
from omn_redis.info import parse_info
from omn_redis.resp import Connection, ReplyError

TIMEOUT_S = 0.25
"""How long a reading waits for a server: longer than a busy one takes for INFO, short enough for a tick."""

_LISTEN = "0A"
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # compared with, never bound to

Address = tuple[str, int]


def connect(pid: int, sysroot: str) -> Connection:
    """Return a connection to the server that is this process. Raises MachineRefused with what stood between."""
    addresses = list(find_listening(pid, sysroot))
    if not addresses:
        raise MachineRefused(
            f"process {pid} listens on no TCP port", "name the server's own process, and let it listen on one"
        )
    expected = read_namespace_pid(pid, sysroot)
    refusals: list[str] = []
    for address in addresses:
        connection = _try_address(address, expected, refusals)
        if connection is not None:
            return connection
    raise MachineRefused(f"process {pid} answers as no Redis server: {'; '.join(refusals)}")


def _try_address(address: Address, expected: int, refusals: list[str]) -> Connection | None:
    spelt = f"{address[0]} port {address[1]}"
    try:
        connection = Connection(address, TIMEOUT_S)
    except OSError as error:
        refusals.append(f"{spelt} cannot be reached ({error})")
        return None
    try:
        stated = parse_info(connection.call("INFO", "server")).get("process_id")
        if stated == str(expected):
            return connection
        refusals.append(f"what answers on {spelt} says it is process {stated}, not {expected}")
    except ReplyError as error:
        refusals.append(f"{spelt} refuses INFO ({error})")
    except OSError as error:
        refusals.append(f"{spelt} speaks something else ({error})")
    connection.close()
    return None


def find_listening(pid: int, sysroot: str) -> Iterator[Address]:
    """Iterate over the addresses a process listens on, as this machine reaches them, lowest port first.

    Raises MachineRefused where its descriptors cannot be read, which takes its user or CAP_SYS_PTRACE.
    """
    process = os.path.join(sysroot, "proc", str(pid))
    inodes = _read_socket_inodes(os.path.join(process, "fd"))
    found = set()
    for name in ("tcp", "tcp6"):
        try:
            with open(os.path.join(process, "net", name), encoding="ascii") as file:
                found |= {address for address, inode in parse_listening(file.read()) if inode in inodes}
        except FileNotFoundError:
            continue  # a kernel without IPv6 has no tcp6
    yield from sorted(found, key=lambda address: (address[1], ":" in address[0]))


def _read_socket_inodes(folder: str) -> set[int]:
    inodes = set()
    try:
        for name in os.listdir(folder):
            try:
                target = os.readlink(os.path.join(folder, name))
            except FileNotFoundError:
                continue  # closed meanwhile
            if target.startswith("socket:["):
                inodes.add(int(target[8:-1]))
    except PermissionError as error:
        raise MachineRefused(
            f"the descriptors in {folder} cannot be read: {error.strerror}",
            "run as the server's user, or with CAP_SYS_PTRACE",
        ) from error
    except FileNotFoundError as error:
        raise MachineRefused(f"no process has {folder}") from error
    return inodes


def parse_listening(text: str) -> Iterator[tuple[Address, int]]:
    """Iterate over the listening sockets of `/proc/net/tcp` or `tcp6`: the address to reach it by, and its inode."""
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 9 and fields[3] == _LISTEN:
            host, _, port = fields[1].partition(":")
            yield (_parse_host(host), int(port, 16)), int(fields[9])


def _parse_host(text: str) -> str:
    """Read an address as the kernel prints it: each 32-bit word in the machine's own byte order."""
    words = [int(text[start : start + 8], 16) for start in range(0, len(text), 8)]
    packed = struct.pack(f"={len(words)}I", *words)
    host = socket.inet_ntop(socket.AF_INET if len(words) == 1 else socket.AF_INET6, packed)
    return _WILDCARDS.get(host, host)


def read_namespace_pid(pid: int, sysroot: str) -> int:
    """Return the number a process has in its own pid namespace, which is what it states of itself.

    That is the last of `NSpid` in /proc/<pid>/status; the number given where the kernel keeps no such line.
    """
    try:
        with open(os.path.join(sysroot, "proc", str(pid), "status"), encoding="utf-8", errors="replace") as file:
            line = next((line for line in file if line.startswith("NSpid:")), None)
    except (FileNotFoundError, ProcessLookupError) as error:
        raise MachineRefused(f"no process {pid} runs here") from error
    return pid if line is None else int(line.split()[-1])

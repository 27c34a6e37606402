"""Whether this machine lets a server be found and spoken to."""

from __future__ import annotations

import os
import socket

from omn_core.api import AVAILABLE, Need, Probe, ProbeContext, State


def probe_redis(need: Need, context: ProbeContext) -> Probe:
    """Answer `redis:resp`: listening sockets can be told (/proc/net/tcp) and a TCP socket opened.

    Whether the process asked about is a server is decided when it is attached to: a listing has no process.
    """
    path = os.path.join(context.sysroot, "proc/net/tcp")
    try:
        with open(path, encoding="ascii"):
            pass
    except FileNotFoundError:
        return Probe(State.MISSING, f"{path} is not there, so no listening socket can be found")
    except PermissionError as error:
        return Probe(State.RESTRICTED, f"{path} cannot be read: {error.strerror}")
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM).close()
    except OSError as error:
        return Probe(State.RESTRICTED, f"no TCP socket can be opened: {error.strerror}")
    return AVAILABLE

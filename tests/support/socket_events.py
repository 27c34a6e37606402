"""What programs in the kernel say of sockets, held in a test that makes the connections itself."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable

import attrs
import pytest
from networks import Network

from omn_core.api import BoundTarget
from omn_core.model.catalog import Catalog
from omn_core.model.request import EmitSpec
from omn_core.plugins import Registry
from omn_core.testing.harness import Driver, resolve_onto

DriveEvents = Callable[..., Driver]


@pytest.fixture
def drive_events(loads_typed_programs: None, registry: Registry, catalog: Catalog) -> DriveEvents:
    """Make the driver of a source that programs serve, its answer every traced event with all of its fields."""

    def make(source: str, target: BoundTarget, *keys: str, backend: str = "bpf:raw_tp", mode: str = "trace") -> Driver:
        resolved = resolve_onto(catalog.entries[source], backend, target.target, mode=mode, keys=keys)
        if mode == "trace":
            resolved = attrs.evolve(resolved, emits=(EmitSpec("raw"),))
        return Driver(registry.load(registry.collectors[source, backend].factory)(), resolved, target)

    return make


@pytest.fixture
def network(make_network: Callable[[], Network]) -> Network:
    """A namespace whose loopback has both protocols' addresses."""
    made = make_network()
    made.write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "0")
    made.write("/proc/sys/net/ipv6/conf/lo/disable_ipv6", "0")
    return made


def listen(network: Network, address: str = "127.0.0.1") -> socket.socket:
    """Open a listening socket at an address of a namespace, on a port that the kernel chooses."""
    listener = open_socket(network, address)
    if listener.family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    listener.bind((address, 0))
    listener.listen()
    return listener


def open_socket(network: Network, address: str) -> socket.socket:
    """Open a socket of TCP that reaches an address."""
    return network.open(socket.SOCK_STREAM, socket.AF_INET6 if ":" in address else socket.AF_INET)


def close_first(first: socket.socket, second: socket.socket) -> None:
    """Close one end, and the other when it has heard of it."""
    first.close()
    assert second.recv(1) == b""
    second.close()


def break_off(first: socket.socket, second: socket.socket) -> None:
    """Reset the connection from one end; the other hears of it."""
    first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    first.close()
    with pytest.raises(ConnectionResetError):
        second.recv(1)
    second.close()

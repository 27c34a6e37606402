"""Network namespaces that a test makes, what is opened inside them, and pairs of interfaces between them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from omn_kernel.interfaces import Interface, get_interface
from omn_kernel.namespaces import get_network, run_in_network

Done = TypeVar("Done")


class Network:
    """A network namespace under a name, with a silent loopback: no IPv6, so that nothing is sent unasked."""

    def __init__(self, name: str) -> None:
        done = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no network namespace can be made here: {done.stderr.strip()}")
        self.name = name
        self.namespace = get_network(name, "/")
        for which in ("all", "default"):
            self.write(f"/proc/sys/net/ipv6/conf/{which}/disable_ipv6", "1")
        self.ip("link", "set", "lo", "up")

    @property
    def inode(self) -> int:
        """What the kernel calls the namespace."""
        return self.namespace.inode

    def ip(self, *arguments: str) -> None:
        """Run ip(8) on the namespace."""
        subprocess.run(["ip", "-n", self.name, *arguments], check=True, capture_output=True)

    def tc(self, *arguments: str) -> None:
        """Run tc(8) on the namespace."""
        subprocess.run(["tc", "-n", self.name, *arguments], check=True, capture_output=True)

    def run(self, action: Callable[[], Done]) -> Done:
        """Do something inside, in a thread that enters and ends."""
        return run_in_network(self.namespace, action)

    def open(self, kind: int = socket.SOCK_DGRAM, family: int = socket.AF_INET) -> socket.socket:
        """Open a socket that belongs to the namespace."""
        return self.run(lambda: socket.socket(family, kind))

    def read(self, name: str) -> bytes:
        """Read a file of /proc/net as the namespace shows it."""
        return self.run(lambda: Path(f"/proc/thread-self/net/{name}").read_bytes())

    def write(self, path: str, content: str) -> None:
        """Write a file of /proc/sys/net from inside, where it is there."""
        self.run(lambda: Path(path).write_text(content) if os.path.exists(path) else None)

    def find(self, interface: str) -> Interface:
        """Return an interface of the namespace as a target's binder finds it."""
        return get_interface(f"{self.name}/{interface}", "/")

    def remove(self) -> None:
        """Take the name away: the kernel ends the namespace when its last socket is closed."""
        subprocess.run(["ip", "netns", "delete", self.name], check=False, capture_output=True)


TAKEN = 4009
"""A port of datagrams that somebody holds and never reads."""


class Pair:
    """Two namespaces and an interface in each, of one index, joined: `10.9.0.1` and `10.9.0.2`, who need no ARP."""

    index = 77

    def __init__(self, here: Network, there: Network) -> None:
        self.here, self.there = here, there
        number = str(self.index)
        end = ("type", "veth", "peer", "name", "there0", "index", number, "netns", there.name)
        here.ip("link", "add", "name", "here0", "index", number, *end)
        for network, name, last, other in ((here, "here0", 1, 2), (there, "there0", 2, 1)):
            network.ip("link", "set", name, "address", f"02:00:00:00:00:0{last}")
            network.ip("address", "add", f"10.9.0.{last}/24", "dev", name)
            network.ip("link", "set", name, "up")
            network.ip("neighbour", "add", f"10.9.0.{other}", "lladdr", f"02:00:00:00:00:0{other}", "dev", name)
        self._taker = there.open()
        self._taker.bind(("10.9.0.2", TAKEN))

    def send(self, count: int, size: int, port: int = TAKEN) -> None:
        """Send datagrams of so many bytes from here to there; nobody answers those to the port that is taken."""
        with self.here.open() as sender:
            for _ in range(count):
                sender.sendto(bytes(size), ("10.9.0.2", port))

    def close(self) -> None:
        """Let go of the port."""
        self._taker.close()


@pytest.fixture
def make_network() -> Iterator[Callable[[], Network]]:
    """Make network namespaces, gone with the test."""
    missing = [tool for tool in ("ip", "tc") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)}: not installed here")
    if os.geteuid() != 0:
        pytest.skip("only root can make a network namespace")
    made: list[Network] = []

    def make() -> Network:
        made.append(Network(f"omn-test-{os.getpid()}-{len(made)}"))
        return made[-1]

    yield make
    for network in made:
        network.remove()


@pytest.fixture
def pair(make_network: Callable[[], Network]) -> Iterator[Pair]:
    """Two namespaces with a pair of interfaces between them."""
    joined = Pair(make_network(), make_network())
    yield joined
    joined.close()


def send_to_oneself(count: int) -> None:
    """Send so many datagrams over the loopback: each is deferred work of the network (NET_RX) on the sender's cpu."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
    ):
        receiver.bind(("127.0.0.1", 0))
        for _ in range(count):
            sender.sendto(b"x", receiver.getsockname())
            receiver.recv(1)

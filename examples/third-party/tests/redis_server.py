"""A Redis server of the tests' own, on a port of its own, and a client to make it do counted things."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path

import attrs
import pytest
from omn_redis.resp import Connection


@attrs.frozen
class Server:
    """A running server: its process, its port, and what started it."""

    process: subprocess.Popen[bytes]
    port: int

    def call(self, *words: str) -> bytes:
        """Send one command on a connection of its own."""
        connection = Connection(("127.0.0.1", self.port), 5.0)
        try:
            return connection.call(*words)
        finally:
            connection.close()

    def repeat(self, times: int, *words: str) -> None:
        """Send one command so many times on one connection."""
        connection = Connection(("127.0.0.1", self.port), 5.0)
        try:
            for _ in range(times):
                connection.call(*words)
        finally:
            connection.close()


def find_free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def server_argv(port: int, folder: Path, *options: str) -> list[str]:
    """Return what starts a server that keeps nothing."""
    path = shutil.which("redis-server")
    if path is None:
        pytest.skip("no redis-server is installed here")
    fixed = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder), "--daemonize", "no"]
    return [path, *fixed, *options]


def wait_until_listening(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a port answers. Fails when its process ends or takes half a minute."""
    deadline = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert process.poll() is None, "the server ended at its start"
            assert time.monotonic() < deadline, "the server does not listen"
            time.sleep(0.02)
        else:
            return

"""What every test of the family shares: omn's published fixtures, and a server."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis_server import Server, find_free_port, server_argv, wait_until_listening

pytest_plugins = ["omn_core.testing.fixtures"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server that runs and has done nothing."""
    port = find_free_port()
    process = subprocess.Popen(server_argv(port, tmp_path), stdout=subprocess.DEVNULL)
    try:
        wait_until_listening(port, process)
        yield Server(process, port)
    finally:
        process.kill()
        process.wait()

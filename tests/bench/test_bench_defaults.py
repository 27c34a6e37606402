"""What each family's cheapest default costs beside a busy server, seen from outside."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

DURATION_S = 10
MOST = 0.01
"""The band `low` ends there: one per cent of one cpu."""


@attrs.frozen
class Server:
    """A redis server with its load: the processes omn is asked about."""

    pid: int


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A redis server that redis-benchmark keeps busy until the test ends."""
    if shutil.which("redis-server") is None or shutil.which("redis-benchmark") is None:
        pytest.skip("redis-server and redis-benchmark (redis-tools) are not installed here")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    serve = ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)]
    press = ["redis-benchmark", "-p", port, "-l", "-q", "-t", "set,get", "-c", "20"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        assert any("Ready to accept connections" in line for line in serving.stdout)
        with subprocess.Popen(press, stdout=subprocess.DEVNULL) as load:
            yield Server(serving.pid)
            load.kill()
        serving.kill()


def read_cpu_ns(pid: int) -> int:
    """Return what every thread of a process spent on a cpu, from the kernel's scheduler: proc_schedstat(5)."""
    spent = 0
    for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            spent += int(task.read_text().split()[0])
    return spent


def list_defaults(omn: Any) -> list[str]:
    """Return the families that have a default of band low."""
    listed = json.loads(omn("list", "--format", "json").stdout)
    return [default["family"] for default in listed["defaults"] if "low" in default["bands"]]


def measure_share(omn: Any, arguments: list[str]) -> float | str:
    """Return the share of one cpu omn took between two instants inside its window, or why it answered nothing.

    Its account is read twice a second from its start to its end, and the first and the last reading that lie in the
    window it reports are compared: neither its start nor its answer is in it.
    """
    argv = [*omn.argv, *arguments, "-d", f"{DURATION_S}s", "--format", "json"]
    readings = []
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=omn.environment()
    ) as measuring:
        while measuring.poll() is None:
            readings.append((time.monotonic_ns(), read_cpu_ns(measuring.pid)))
            with contextlib.suppress(subprocess.TimeoutExpired):
                measuring.wait(0.5)
        written, said = measuring.communicate()
    if measuring.returncode != 0:
        return said.strip().splitlines()[0]
    window = json.loads(written)["window"]
    inside = [reading for reading in readings if window["opened_ns"] < reading[0] < window["closed_ns"]]
    (first_ns, first), (last_ns, last) = inside[0], inside[-1]
    assert last_ns - first_ns > 0.8e9 * DURATION_S
    return (last - first) / (last_ns - first_ns)


def test_every_cheapest_default_stays_under_one_per_cent_of_a_cpu(omn: Any, server: Server) -> None:
    """Beside a server under load: omn's own cpu over its window, from the kernel's account of it."""
    families = list_defaults(omn)
    assert families
    over = []
    for family in families:
        for target in (["--pid", str(server.pid)], ["--system"]):
            share = measure_share(omn, [family, *target])
            shown = share if isinstance(share, str) else f"{share:.2%} of a cpu"
            print(f"\nomn {family} {target[0]}: {shown}", end="")
            if not isinstance(share, str) and share >= MOST:
                over.append(f"{family} {target[0]}: {share:.2%}")
    assert not over

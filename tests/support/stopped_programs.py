"""Programs that distributions build without frame pointers, kept busy: what a debugger's stops are compared on."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

PYTHON = "/usr/bin/python3"
WORK = """
import json, re
class Node:
    def __init__(self, depth):
        self.children = [Node(depth - 1) for _ in range(2)] if depth else []
    def walk(self):
        return 1 + sum(child.walk() for child in self.children)
print("ready", flush=True)
while True:
    Node(7).walk()
    json.loads(json.dumps({str(one): [one] * 3 for one in range(50)}))
    sorted((re.sub("[a-m]", "x", "the quick brown fox " * 5) for _ in range(20)), key=len)
"""
QUERY = """
.print ready
WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)
SELECT count(*), sum(length(hex(x)) + instr(printf('%d-%s', x, hex(x)), 'A')) FROM c WHERE x % 7 IN (1, 2, 3);
"""
CONFIGURATION = """
daemon off; master_process off; error_log stderr; pid {folder}/pid;
events {{ }}
http {{
    access_log off; gzip on; gzip_comp_level 9; gzip_types text/plain;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    types {{ text/plain txt; }}
    server {{ listen unix:{folder}/socket; location / {{ root {folder}; autoindex on; }} }}
}}
"""


def _find(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if found is None:
        pytest.skip(f"{name} is not installed here")
    return found


@contextlib.contextmanager
def _running(command: list[str], given: str | None = None) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        try:
            if given is not None:
                process.stdin.write(given)
                process.stdin.flush()
            yield process
        finally:
            process.kill()


def _wait_until_ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"


@contextlib.contextmanager
def running_python(_folder: Path) -> Iterator[int]:
    """Run the distribution's Python: recursion, generators, and callbacks out of C."""
    with _running([_find(PYTHON), "-S", "-c", WORK]) as process:
        _wait_until_ready(process)
        yield process.pid


@contextlib.contextmanager
def running_sqlite3(_folder: Path) -> Iterator[int]:
    """Run a query of sqlite3's that has no end."""
    with _running([_find("sqlite3"), ":memory:"], QUERY) as process:
        _wait_until_ready(process)
        yield process.pid


@contextlib.contextmanager
def running_nginx(folder: Path) -> Iterator[int]:
    """Run nginx in one process, asked for a list of files and for a text to compress all the while."""
    (folder / "large.txt").write_text("".join(f"line {number * number}\n" for number in range(100_000)))
    (folder / "nginx.conf").write_text(CONFIGURATION.format(folder=folder))
    ended = threading.Event()
    with _running([_find("nginx"), "-p", str(folder), "-c", str(folder / "nginx.conf")]) as process:
        clients = [threading.Thread(target=_ask, args=(folder / "socket", ended, process)) for _ in range(2)]
        for client in clients:
            client.start()
        try:
            yield process.pid
        finally:
            ended.set()
            process.kill()
            for client in clients:
                client.join()


def _ask(path: Path, ended: threading.Event, process: subprocess.Popen[str]) -> None:
    while not ended.is_set() and process.poll() is None:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as one:
            one.connect(str(path))
            for name in ("", "nothing"):
                one.sendall(f"GET /{name} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                one.recv(1 << 16)
            one.sendall(b"GET /large.txt HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAccept-Encoding: gzip\r\n\r\n")
            while one.recv(1 << 16):
                pass

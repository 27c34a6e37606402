"""Debug files from debuginfod servers, by build id: asked for by `--symbols debuginfod` and by nothing else.

A server is anybody's: what it sends is bounded in bytes and in time, believed where it carries the build id that was
asked for, and kept in the user's cache under that id. One that could not be reached, or was too slow, is not asked
again in the run. See debuginfod(8) for the address of a debug file, DEBUGINFOD_URLS for the servers.
"""

from __future__ import annotations

import http.client
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO
from urllib import request
from urllib.error import HTTPError

import attrs

from omn_core.api import MachineRefused, fill_cached, open_cached
from omn_kernel.elf.image import read_image
from omn_kernel.elf.notes import find_build_id
from omn_kernel.elf.source import ElfError, File

MOST_BYTES = 1 << 30
"""The largest debug file that is taken."""

MOST_KEPT_BYTES = 4 << 30
"""What the cache holds of them at most."""

FILE_SECONDS, RUN_SECONDS, STALL_SECONDS = 60.0, 180.0, 10.0
"""How long one file may take, all of a run together, and a server between two answers."""

_CHUNK = 1 << 18
_BUILD_ID = re.compile(r"[0-9a-f]{8,128}")
_KEPT = "debugfile"


@attrs.frozen
class Limits:
    """What is taken of servers: bytes a file, seconds a file and a run, seconds between two answers."""

    most_bytes: int = MOST_BYTES
    file_seconds: float = FILE_SECONDS
    run_seconds: float = RUN_SECONDS
    stall_seconds: float = STALL_SECONDS


class Unserved(Exception):
    """A server gave no debug file: why, in a clause."""


def read_servers() -> tuple[str, ...]:
    """Read the servers that this user configured. Raises MachineRefused where DEBUGINFOD_URLS names none over HTTP."""
    words = os.environ.get("DEBUGINFOD_URLS", "").split()
    servers = tuple(word.rstrip("/") for word in words if word.startswith(("http://", "https://")))
    if not servers:
        named = f"DEBUGINFOD_URLS is {' '.join(words)!r}" if words else "DEBUGINFOD_URLS is not set"
        raise MachineRefused(
            f"debuginfod was asked for, and no server of it is configured: {named}",
            "set DEBUGINFOD_URLS to the addresses of servers, such as https://debuginfod.elfutils.org",
        )
    return servers


class Debuginfod:
    """The servers of one run, and what they gave: `files` and `taken_bytes` fetched, `kept` found in the cache.

    `cpu_ns` is what fetching cost omn, `faults` what went wrong in a clause each, `lacking` how many files no server
    had.
    """

    def __init__(self, servers: tuple[str, ...], limits: Limits | None = None) -> None:
        self.files = self.taken_bytes = self.kept = self.lacking = self.cpu_ns = 0
        self.faults: dict[str, None] = {}
        self._limits = Limits() if limits is None else limits
        self._servers = list(servers)
        self._left_seconds = self._limits.run_seconds

    def find(self, build_id: str) -> File | None:
        """Find the debug file of a build: in the cache, else on the first server that has it."""
        if not _BUILD_ID.fullmatch(build_id):
            return None
        kept = open_cached(f"{_KEPT}-{build_id}")
        if kept is not None:
            with kept:
                found = _open_checked(kept, build_id)
            if found is not None:
                self.kept += 1
                return found
        began_ns = time.process_time_ns()
        try:
            return self._fetch(build_id)
        finally:
            self.cpu_ns += time.process_time_ns() - began_ns

    def _fetch(self, build_id: str) -> File | None:
        for server in tuple(self._servers):
            if self._left_seconds <= 0:
                self.faults[f"fetching took {self._limits.run_seconds:g} s, and nothing more is asked for"] = None
                self._servers.clear()
                return None
            try:
                found = self._fetch_from(server, build_id)
            except Unserved as error:
                self.faults[f"{server}: {error}"] = None
                continue
            except (OSError, http.client.HTTPException, ValueError) as error:
                # Whoever cannot be reached, or says what is no HTTP, would cost as long for every file.
                self._servers.remove(server)
                self.faults[f"{server}: {_explain(error)}; it is not asked again"] = None
                continue
            if found is not None:
                return found
        self.lacking += 1
        return None

    def _fetch_from(self, server: str, build_id: str) -> File | None:
        """Fetch a debug file from a server, None where it has none. Raises Unserved, or what the connection raises."""
        with fill_cached(f"{_KEPT}-{build_id}", MOST_KEPT_BYTES) as (file, keep):
            size = self._download(f"{server}/buildid/{build_id}/debuginfo", file)
            if size is None:
                return None
            file.flush()
            found = _open_checked(file, build_id)
            if found is None:
                raise Unserved(f"what it sent for build {build_id} is not of that build")
            self.files += 1
            self.taken_bytes += size
            keep()
            return found

    def _download(self, url: str, file: BinaryIO) -> int | None:
        """Copy what an address holds into a file. Returns its size, None where the server says that it has none."""
        limits, began = self._limits, time.monotonic()
        seconds = min(limits.file_seconds, self._left_seconds)
        with _Deadline(seconds) as deadline:
            try:
                with deadline.open(url, min(limits.stall_seconds, seconds)) as response:
                    return _copy(response, file, limits.most_bytes)
            except HTTPError as error:
                if error.code == http.client.NOT_FOUND:
                    return None
                raise Unserved(f"it answers {error.code} {error.reason}") from error
            finally:
                self._left_seconds -= time.monotonic() - began
                # A connection that was cut reads as any other failure, or as the end of what was sent.
                if deadline.is_past:
                    raise TimeoutError(f"it took longer than {seconds:g} s")


def _copy(response: Any, file: BinaryIO, most_bytes: int) -> int:
    stated = response.headers.get("Content-Length", "")
    too_large = Unserved(f"what it has is larger than {most_bytes >> 20} MiB")
    if stated.isdigit() and int(stated) > most_bytes:
        raise too_large
    size = 0
    while chunk := response.read1(_CHUNK):
        size += len(chunk)
        if size > most_bytes:
            raise too_large
        try:
            file.write(chunk)
        except OSError as error:
            raise Unserved(f"there is no room for what it sends ({error.strerror})") from error
    if stated.isdigit() and size != int(stated):
        raise Unserved(f"it sent {size} of {stated} bytes")
    return size


def _open_checked(file: BinaryIO, build_id: str) -> File | None:
    """Open a debug file that is held open, None where it is not of that build."""
    try:
        found = File(f"/proc/self/fd/{file.fileno()}")
        return found if find_build_id(read_image(found)) == build_id else None
    except (OSError, ElfError):
        return None


def _explain(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError):
        return str(reason) if "longer" in str(reason) else "it does not answer"
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror.lower()
    return f"{type(error).__name__}: {reason}"


class _Deadline:
    """The end of one download: its connections are cut then, however slowly a server goes on sending."""

    def __init__(self, seconds: float) -> None:
        self.is_past = False
        self._sockets: list[socket.socket] = []
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True

    def __enter__(self) -> _Deadline:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def _cut(self) -> None:
        self.is_past = True
        for one in list(self._sockets):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # it was closed meanwhile

    def open(self, url: str, stall_seconds: float) -> Any:
        """Open an address, redirections within HTTP followed. Raises what urllib raises."""
        opener = request.OpenerDirector()
        for handler in self._iter_handlers():
            opener.add_handler(handler)
        asked = request.Request(url, headers={"User-Agent": "omn", "Accept-Encoding": "identity"})  # noqa: S310
        return opener.open(asked, timeout=stall_seconds)

    def _iter_handlers(self) -> Iterator[request.BaseHandler]:
        """Yield what HTTP takes, and no handler of files or of FTP, which a redirection may name."""
        yield request.ProxyHandler()
        yield _Http(self._sockets)
        yield _Https(self._sockets)
        yield request.HTTPRedirectHandler()
        yield request.HTTPErrorProcessor()
        yield request.HTTPDefaultErrorHandler()
        yield request.UnknownHandler()


class _HttpConnection(http.client.HTTPConnection):
    def __init__(self, *arguments: Any, sockets: list[socket.socket], **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._sockets = sockets

    def connect(self) -> None:
        super().connect()
        self._sockets.append(self.sock)


class _HttpsConnection(http.client.HTTPSConnection):
    def __init__(self, *arguments: Any, sockets: list[socket.socket], **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._sockets = sockets

    def connect(self) -> None:
        super().connect()
        self._sockets.append(self.sock)


class _Http(request.HTTPHandler):
    def __init__(self, sockets: list[socket.socket]) -> None:
        super().__init__()
        self._sockets = sockets

    def http_open(self, req: request.Request) -> Any:  # urllib's name
        return self.do_open(partial(_HttpConnection, sockets=self._sockets), req)


class _Https(request.HTTPSHandler):
    def __init__(self, sockets: list[socket.socket]) -> None:
        super().__init__()
        self._sockets = sockets

    def https_open(self, req: request.Request) -> Any:  # urllib's name
        return self.do_open(partial(_HttpsConnection, sockets=self._sockets), req)

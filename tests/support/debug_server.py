"""A debuginfod server on loopback, in good and in bad: what it does stands first in a path."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CHUNK = b"\0" * 65536


class Handler(BaseHTTPRequestHandler):
    """One request. `server` is the `DebugServer`."""

    server: DebugServer

    def do_GET(self) -> None:  # the base's name
        """Behave as the first part of the path says."""
        self.server.asked.append(self.path)
        _, way, _, build_id, kind = self.path.split("/")
        content = self.server.files.get(build_id) if kind == "debuginfo" else None
        with contextlib.suppress(ConnectionError, TimeoutError):
            getattr(self, f"be_{way}")(content, build_id)

    def be_good(self, content: bytes | None, build_id: str) -> None:
        """Serve the file, or say that there is none."""
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def be_lying(self, content: bytes | None, build_id: str) -> None:
        """Serve the first file there is, whatever was asked for."""
        self.be_good(next(iter(self.server.files.values())), build_id)

    def be_broken(self, content: bytes | None, build_id: str) -> None:
        """Fail."""
        self.send_error(500, "out of order")

    def be_short(self, content: bytes | None, build_id: str) -> None:
        """Promise more than is sent."""
        self.send_response(200)
        self.send_header("Content-Length", "100000")
        self.end_headers()
        self.wfile.write(b"\x7fELF")

    def be_huge(self, content: bytes | None, build_id: str) -> None:
        """Promise ten gigabytes, and send them."""
        self.send_response(200)
        self.send_header("Content-Length", str(10 << 30))
        self.end_headers()
        self._go_on()

    def be_endless(self, content: bytes | None, build_id: str) -> None:
        """Send for as long as anybody listens, and promise nothing."""
        self.send_response(200)
        self.end_headers()
        self._go_on()

    def be_silent(self, content: bytes | None, build_id: str) -> None:
        """Say nothing until the test is over."""
        self.server.ended.wait()

    def be_slow(self, content: bytes | None, build_id: str) -> None:
        """Send a byte at a time, each soon enough."""
        self.send_response(200)
        self.end_headers()
        while not self.server.ended.wait(0.02):
            self.wfile.write(b"\0")

    def be_moved(self, content: bytes | None, build_id: str) -> None:
        """Send to the address where it is."""
        self._redirect(f"/good/buildid/{build_id}/debuginfo")

    def be_looping(self, content: bytes | None, build_id: str) -> None:
        """Send to itself."""
        self._redirect(self.path)

    def be_local(self, content: bytes | None, build_id: str) -> None:
        """Send to a file of the machine that asks."""
        self._redirect(f"file://{self.server.own_file}")

    def be_babbling(self, content: bytes | None, build_id: str) -> None:
        """Say what is no HTTP."""
        self.wfile.write(b"what do you want?\n")

    def _go_on(self) -> None:
        while not self.server.ended.is_set():
            self.wfile.write(CHUNK)

    def _redirect(self, place: str) -> None:
        self.send_response(302)
        self.send_header("Location", place)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base's names
        """Say nothing on stderr."""


class DebugServer(ThreadingHTTPServer):
    """The server: `files` by build id, and every path that was `asked`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.own_file = ""
        self.ended = threading.Event()

    def get_url(self, way: str = "good") -> str:
        """Return the address at which it behaves in a way."""
        return f"http://127.0.0.1:{self.server_port}/{way}"


@contextlib.contextmanager
def serving() -> Iterator[DebugServer]:
    """Serve until the block ends."""
    with DebugServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.ended.set()
            server.shutdown()
            thread.join()

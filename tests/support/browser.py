"""A browser without a screen, driven over its debugging pipe: what a page shows when somebody uses it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
"""The browser's path, None where none is installed."""

_OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--window-size=1280,800",
    "--remote-debugging-pipe",
)


class Page:
    """One page of a browser. `requested` are the addresses it asked for, `errors` what its scripts threw."""

    def __init__(self, reading: Any, writing: Any) -> None:
        self._reading, self._writing = reading, writing
        self._number = 0
        self._session: str | None = None
        self._events: list[dict[str, Any]] = []
        self.requested: list[str] = []
        self.errors: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._call(f"{domain}.enable")

    def open(self, path: Path, fragment: str = "") -> None:
        """Open a file, at a fragment of it, and return when it has loaded. A page of before is gone in any case."""
        for address in ("about:blank", path.as_uri() + fragment):
            self._events.clear()
            self._call("Page.navigate", url=address)
            while not any(event["method"] == "Page.loadEventFired" for event in self._events):
                self._read()

    def evaluate(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        found = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key: str) -> None:
        """Press a key and let it go, wherever the focus is."""
        text = {"text": key} if len(key) == 1 else {}
        self._call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self._call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def type(self, text: str) -> None:
        """Type a text wherever the focus is."""
        self._call("Input.insertText", text=text)

    def click(self, x: float, y: float) -> None:
        """Click at a place of the window."""
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        self._writing.write(json.dumps(message).encode() + b"\0")
        self._writing.flush()
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                result: dict[str, Any] = answer["result"]
                return result

    def _read(self) -> dict[str, Any]:
        content = bytearray()
        while (one := self._reading.read(1)) != b"\0":
            assert one, "the browser is gone"
            content += one
        message: dict[str, Any] = json.loads(content)
        if message.get("method") == "Network.requestWillBeSent":
            self.requested.append(message["params"]["request"]["url"])
        elif message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(message["params"]))
        elif message.get("method") == "Runtime.consoleAPICalled" and message["params"]["type"] in ("error", "assert"):
            self.errors.append(json.dumps(message["params"]["args"]))
        elif message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
            self.errors.append(message["params"]["entry"]["text"])
        if "method" in message:
            self._events.append(message)
        return message


@contextlib.contextmanager
def open_browser(folder: Path) -> Iterator[Page]:
    """Start a browser whose files are in a folder, and end it."""
    assert CHROMIUM is not None
    their_reading, our_writing = os.pipe()
    our_reading, their_writing = os.pipe()
    command = ["bash", "-c", f'exec "$0" "$@" 3<&{their_reading} 4>&{their_writing}', CHROMIUM, *_OPTIONS]
    with (
        (folder / "browser.log").open("wb") as log,
        subprocess.Popen(
            [*command, f"--user-data-dir={folder / 'profile'}", "about:blank"],
            pass_fds=(their_reading, their_writing),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={"HOME": str(folder), "PATH": os.environ["PATH"]},
        ) as process,
    ):
        os.close(their_reading)
        os.close(their_writing)
        with open(our_reading, "rb") as reading, open(our_writing, "wb") as writing:
            try:
                yield Page(reading, writing)
            finally:
                process.kill()

"""Recordings of a fake harness, made by the real recorder from its command line, for tests."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import attrs
import fake_harness
import pytest
from perfetto_reading import ReadTrace, read_trace

PATIENCE_S = 60
_FAKE_PI = Path(__file__).with_name("fake_pi.mjs")


@attrs.define
class Ran:
    """A recorder that has ended."""

    code: int
    stdout: str
    stderr: str


@attrs.define
class Running:
    """A recorder at work."""

    process: subprocess.Popen[str]

    def expect(self, word: str) -> None:
        """Wait until the harness says a word."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.strip() == word:
                return
        raise AssertionError(f"it ended without saying {word!r}: {self.finish()}")

    def go_on(self) -> None:
        """Let a harness that waits go on."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def finish(self) -> Ran:
        """Wait for the recorder's end."""
        stdout, stderr = self.process.communicate(timeout=PATIENCE_S)
        return Ran(self.process.returncode, stdout, stderr)


@attrs.define
class Bench:
    """A home, a working folder and a harness's program, all of one test's own."""

    omn: Any
    folder: Path

    @property
    def home(self) -> Path:
        """The harness's home: its session files hold words by right."""
        return self.folder / "home"

    @property
    def work(self) -> Path:
        """The working folder."""
        return self.folder / "work"

    @property
    def own(self) -> Path:
        """Where everything that the recorder writes is, but for what `-o` names."""
        return self.folder / "own"

    def prepare(self) -> None:
        """Make the folders and the programs."""
        for path in (self.home, self.work, self.own, self.own / "run", self.folder / "bin"):
            path.mkdir(mode=0o700)
        for name in ("claude", "codex", "pi", "muse"):
            program = self.folder / "bin" / name
            program.write_text(f'#!/bin/sh\nexec {sys.executable} {fake_harness.__file__} "$@"\n')
            program.chmod(0o755)

    def environment(self, script: str, **more: str) -> dict[str, str]:
        """Return the environment of a recorder whose harness runs a script."""
        path = self.folder / f"script-{len(list(self.folder.glob('script-*')))}.py"
        path.write_text(textwrap.dedent(script))
        found = self.omn.environment()
        found |= {
            "HOME": str(self.home), "OMN_CACHE_DIR": str(self.own / "cache"), "XDG_RUNTIME_DIR": str(self.own / "run"),
            "PATH": f"{self.folder / 'bin'}:{found['PATH']}", "FAKE_SCRIPT": str(path), **more,
        }  # fmt: skip
        return dict(found)

    def start(self, script: str, *options: str, harness: str = "claude", **more: str) -> Running:
        """Start a recorder of a harness that runs a script."""
        output = () if "-o" in options else ("-o", "out.pftrace")
        command = [*self.omn.argv, "agent", "record", *output, *options, "--", harness]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        environment = self.environment(script, **more)
        return Running(subprocess.Popen(command, cwd=self.work, env=environment, text=True, **pipes))

    def record(self, script: str, *options: str, harness: str = "claude", **more: str) -> Ran:
        """Record a harness that runs a script to its end."""
        return self.start(script, *options, harness=harness, **more).finish()

    def command(self, *arguments: str) -> Ran:
        """Run another command of omn's in the working folder."""
        environment = self.environment("")
        ran = subprocess.run(
            [*self.omn.argv, "agent", *arguments], cwd=self.work, env=environment, capture_output=True, text=True,
            check=False, timeout=PATIENCE_S,
        )  # fmt: skip
        return Ran(ran.returncode, ran.stdout, ran.stderr)

    def read(self, name: str = "out.pftrace") -> ReadTrace:
        """Return a recording that was published."""
        return read_trace((self.work / name).read_bytes())

    def journals(self) -> list[Path]:
        """Return the journals that there are."""
        return sorted((self.own / "cache" / "agent").glob("*.journal"))

    def wait_for(self, word: bytes) -> Path:
        """Wait until the journal holds a word: it is written each second."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            for path in self.journals():
                if word in path.read_bytes():
                    return path
            time.sleep(0.02)
        raise AssertionError(f"no journal holds {word!r}")

    def find_words(self, *words: bytes) -> list[tuple[str, bytes]]:
        """Return which of some words are in which of the files that the recorder wrote."""
        places = [path for folder in (self.own, self.work) for path in folder.rglob("*") if path.is_file()]
        return [(str(path), word) for path in places for word in words if word in path.read_bytes()]


def make_pi_bench(omn: Any, folder: Path) -> Bench:
    """Make a bench whose Pi node runs, found by its name. Skips where there is no node."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed here")
    made = Bench(omn, folder)
    made.prepare()
    (made.folder / "bin" / "pi").write_text(f'#!/bin/sh\nexec {node} {_FAKE_PI} "$@"\n')
    return made


def read_maxima(trace: ReadTrace, name: str) -> list[float]:
    """Return the largest values of the counters of a name, one for each track, smallest first."""
    found: dict[int, float] = {}
    for packet in trace.packets:
        event = packet.track_event
        if event.track_uuid in trace.descriptors and trace.descriptors[event.track_uuid].name == name:
            found[event.track_uuid] = max(found.get(event.track_uuid, 0), event.counter_value)
    return sorted(found.values())


def kill(pid: int) -> None:
    """Kill one process by its number."""
    os.kill(pid, signal.SIGKILL)

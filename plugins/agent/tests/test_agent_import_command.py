"""`omn agent import` from its command line."""

from __future__ import annotations

import errno
import stat
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from agent_sessions import ClaudeLines, write_lines
from omn_agent.files import write_new
from perfetto_reading import read_trace

from omn_core.api import RunFailed

pytestmark = pytest.mark.spec("AGT-9", "AGT-10")


def write_session(folder: Path) -> Path:
    """Write a session."""
    lines = ClaudeLines()
    return write_lines(
        folder / "s.jsonl", [lines.user(0, "PROMPTWORD"), lines.answer(1, "m1", (10, 1)), {"type": "odd"}]
    )


def test_an_import_writes_a_file_of_its_owner_and_says_what_became_of_each_line(omn: Any, tmp_path: Path) -> None:
    """The file is new, for its owner alone, and holds the session; unknown lines are named."""
    path, output = write_session(tmp_path), tmp_path / "out.pftrace"
    ran = omn("agent", "import", "claude", str(path), "-o", str(output))
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout.decode().splitlines() == [
        f"{output}: 1 sessions, 0 children, 1 responses, 0 tool calls",
        "3 lines: 0 records were there already, 1 of unknown kinds, 0 no JSON objects, 0 without a time",
        "unknown kinds: 'odd' 1",
    ]
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    assert read_trace(output.read_bytes()).one("prompt").args["text"] == "PROMPTWORD"


@pytest.mark.parametrize(
    ("harness", "other"),
    [("pi", {"type": "user"}), ("codex", {"type": "thread.started"}), ("muse", {"session": {}, "transcript": []})],
)
def test_of_a_folder_what_is_no_session_is_left_out_and_said(
    omn: Any, tmp_path: Path, harness: str, other: dict[str, Any]
) -> None:
    """One document of another kind costs no other session; where there is nothing else it is the answer."""
    folder = tmp_path / "in\x1b[31m"
    write_lines(folder / "b" / "session.jsonl", [other])
    output = str(tmp_path / "out\n.pftrace")
    alone = omn("agent", "import", harness, str(folder), "-o", output)
    assert alone.code == 2
    first = {
        "pi": {"type": "session", "version": 3, "id": "s", "timestamp": "2026-03-01T09:00:00Z"},
        "codex": {"type": "session_meta", "timestamp": "2026-03-01T09:00:00Z", "payload": {"id": "s"}},
        "muse": {"schema_version": 1, "recorded_at": 1_772_355_600_000_000, "payload_type": "runtime.x"},
    }
    write_lines(folder / "a" / "session.jsonl", [first[harness]])
    ran = omn("agent", "import", harness, str(folder), "-o", output)
    lines = ran.stdout.decode().splitlines()
    assert (ran.code, len(lines)) == (0, 4 if harness == "muse" else 3)
    assert lines[0].endswith("out\\n.pftrace: 1 sessions, 0 children, 0 responses, 0 tool calls")
    assert lines[2].startswith("left out: 1 files, the first: ")
    assert "\x1b" not in ran.stdout.decode()
    assert read_trace(Path(output).read_bytes()).one("profile (1)").args["refused_files"] == 1


def test_a_file_that_is_there_is_never_written_over(omn: Any, tmp_path: Path) -> None:
    """It is the request's fault, and the file stays as it was."""
    path, output = write_session(tmp_path), tmp_path / "out.pftrace"
    output.write_text("mine")
    ran = omn("agent", "import", "claude", str(path), "-o", str(output))
    assert ran.code == 2
    assert "is there already" in ran.stderr
    assert output.read_text() == "mine"


@pytest.mark.spec("AGT-8")
def test_the_switch_keeps_every_word_out(omn: Any, tmp_path: Path) -> None:
    """AGENTPROF_CAPTURE_CONTENTS=0 leaves lengths and tokens, and no word."""
    path, output = write_session(tmp_path), tmp_path / "out.pftrace"
    ran = omn("agent", "import", "claude", str(path), "-o", str(output), AGENTPROF_CAPTURE_CONTENTS="0")
    assert ran.code == 0
    assert b"PROMPTWORD" not in output.read_bytes()
    assert read_trace(output.read_bytes()).one("prompt").args == {"length": 10}


def test_a_place_that_cannot_be_written_fails_the_run(omn: Any, tmp_path: Path) -> None:
    """The run failed before its result."""
    ran = omn("agent", "import", "claude", str(write_session(tmp_path)), "-o", str(tmp_path / "none" / "out.pftrace"))
    assert ran.code == 1
    assert ran.stderr.splitlines()[-1] == "omn: the run failed before any result was written"


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    """A file that cannot be written whole is not there at all."""

    def fill(stream: BinaryIO) -> int:
        stream.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(RunFailed, match="No space left"):
        write_new(tmp_path / "out.pftrace", fill)
    assert not list(tmp_path.iterdir())


def test_an_unknown_harness_is_refused_by_name(omn: Any, tmp_path: Path) -> None:
    """The words that there are stand in the refusal."""
    ran = omn("agent", "import", "hal", str(tmp_path))
    assert ran.code == 2
    assert "claude" in ran.stderr

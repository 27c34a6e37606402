"""The client that hooks run, compiled and slow: what it hands on, what it keeps back, and what it does alone."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from compiled import compile_c
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omn_agent.hook import client
from omn_agent.hook.slow import filter_input, parse_input

pytestmark = pytest.mark.spec("AGT-10")

SLOW = (sys.executable, "-I", "-S", str(Path(client.__file__).with_name("slow.py")))
FULL = {
    "session_id": "s1", "prompt_id": "p1", "transcript_path": "/home/ada/t.jsonl", "cwd": "/home/ada",
    "permission_mode": "acceptEdits", "hook_event_name": "PostToolUse", "agent_id": "a1", "agent_type": "Explore",
    "model": "poppy-5",
    "effort": {"level": "high", "note": "SECRETWORD"}, "prompt": "PROMPTWORD \U0001f33b\n", "tool_name": "Bash",
    "tool_input": {"command": "ARGWORD", "deep": [None, {"x": 1.5e3}]}, "tool_use_id": "t1", "duration_ms": 12,
    "tool_response": {"agentId": "c1", "stdout": "RESULTWORD"}, "last_assistant_message": "ANSWERWORD",
    "error": "RESULTWORD", "is_interrupt": False, "reason": "SECRETWORD of some length", "trigger": "auto",
    "background_tasks": [{"command": "SECRETWORD"}], "custom_instructions": "SECRETWORD",
    "compact_summary": "ANSWERWORD",
}  # fmt: skip
IDS = {
    "session_id": "s1", "prompt_id": "p1", "transcript_path": "/home/ada/t.jsonl", "cwd": "/home/ada",
    "permission_mode": "acceptEdits", "hook_event_name": "PostToolUse", "agent_id": "a1", "agent_type": "Explore",
    "model": "poppy-5",
    "effort": "high", "tool_name": "Bash", "tool_use_id": "t1", "duration_ms": 12, "child_id": "c1",
    "is_interrupt": False, "trigger": "auto",
}  # fmt: skip


@pytest.fixture(params=["compiled", "slow"])
def command(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Either client."""
    if request.param == "compiled" and not client.is_compiled():
        pytest.skip("omn-agent was installed where no compiler was")
    return client.get_client() if request.param == "compiled" else SLOW


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A recorder's folder, and nobody at its socket."""
    (tmp_path / "spool").mkdir()
    return tmp_path


@pytest.fixture
def listener(folder: Path) -> Iterator[socket.socket]:
    """A recorder's socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as made:
        descriptor = os.open(folder, os.O_RDONLY)
        made.bind(f"/proc/self/fd/{descriptor}/hooks")
        os.close(descriptor)
        made.listen(8)
        made.settimeout(20)
        yield made


def hook(command: tuple[str, ...], folder: Path, content: str, payload: Any) -> None:
    """Run the client once. It says nothing and succeeds."""
    text = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    ran = subprocess.run([*command, "claude", str(folder), content], input=text, capture_output=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")


def take(listener: socket.socket) -> dict[str, Any]:
    """Return the next event that arrives."""
    with listener.accept()[0] as connection:
        event: dict[str, Any] = json.loads(connection.recv(1 << 20))
    return event


def list_spooled(folder: Path) -> list[dict[str, Any]]:
    """Return the events in the spool."""
    return [json.loads(path.read_bytes()) for path in sorted((folder / "spool").iterdir()) if path.name != "drops"]


def test_an_event_is_handed_over_with_its_stamp_and_without_answers(
    command: tuple[str, ...], folder: Path, listener: socket.socket
) -> None:
    """With content on the prompt and the tool's input are there; no result, answer, summary or free text is."""
    before_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    hook(command, folder, "on", FULL)
    event = take(listener)
    assert before_ns <= event["stamp_ns"] <= time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    assert (event["harness"], event["pid"]) == ("claude", os.getpid())
    assert event["size"] == len(json.dumps(FULL))
    assert event["input"] == {**IDS, "prompt": FULL["prompt"], "tool_input": FULL["tool_input"]}


@pytest.mark.spec("AGT-8")
def test_with_content_off_only_the_length_of_a_prompt_is_handed_over(
    command: tuple[str, ...], folder: Path, listener: socket.socket
) -> None:
    """Lengths, names and ids are there, and no word of a prompt or an argument: the length is in UTF-16 units."""
    hook(command, folder, "off", FULL)
    event = take(listener)
    assert event["input"] == {**IDS, "prompt_length": 14}
    assert "WORD" not in json.dumps(event)


@pytest.mark.spec("AGT-8", "AGT-9")
def test_a_recorder_that_is_gone_gets_ids_alone_and_one_more_drop(command: tuple[str, ...], folder: Path) -> None:
    """Even with content on nothing of it is spooled for nobody, and each event is counted."""
    hook(command, folder, "on", FULL)
    hook(command, folder, "on", {"session_id": "s2"})
    first, second = list_spooled(folder)
    assert first["input"] == {**IDS, "prompt_length": 14}
    assert second["input"] == {"session_id": "s2"}
    assert (folder / "spool" / "drops").read_bytes() == b".."
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in (folder / "spool").iterdir())


def test_an_event_that_no_message_holds_is_spooled_whole(
    command: tuple[str, ...], folder: Path, listener: socket.socket
) -> None:
    """A megabyte of JSON becomes a file, renamed into place; nothing of it is lost."""
    hook(command, folder, "on", {"session_id": "s1", "tool_input": {"text": "x" * (1 << 20)}})
    (event,) = list_spooled(folder)
    assert len(event["input"]["tool_input"]["text"]) == 1 << 20
    assert not (folder / "spool" / "drops").exists()


def test_an_event_that_cannot_be_spooled_is_counted(
    command: tuple[str, ...], folder: Path, listener: socket.socket
) -> None:
    """A file of so many bytes cannot be written, as on a disk that is full: nothing of it stays but its count."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    given = json.dumps({"hook_event_name": "PreToolUse", "session_id": "s", "tool_input": "x" * (1 << 20)}).encode()
    subprocess.run([*command, "claude", str(folder), "on"], input=given, check=True, preexec_fn=limit)
    assert [path.name for path in (folder / "spool").iterdir()] == ["drops"]
    assert (folder / "spool" / "drops").read_bytes() == b"."


@pytest.mark.parametrize(
    "broken",
    [b"", b"[]", b"{", b'{"prompt":"a"} x', b'{"prompt":"\xff"}', b'{"prompt":"\xed\xa0\x80"}', b'{"a":01}',
     b'{"a":1,}', b'{"prompt":"\n"}', b'{"a":NaN}', b"[" * 5000, b'{"a":' * 5000],
)  # fmt: skip
def test_what_is_no_object_is_told_without_a_byte_of_it(
    command: tuple[str, ...], folder: Path, listener: socket.socket, broken: bytes
) -> None:
    """Nothing that was not understood is handed on: only that it came, and how long it was."""
    hook(command, folder, "on", broken)
    event = take(listener)
    assert (event["input"], event["size"]) == (None, len(broken))


def test_no_folder_is_no_failure(command: tuple[str, ...], tmp_path: Path) -> None:
    """After a recording its folder is gone, and a late hook ends in silence."""
    hook(command, tmp_path / "none", "on", FULL)
    assert not list(tmp_path.iterdir())


NAMES = st.sampled_from([*FULL, "other"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=70) | st.sampled_from(["agentId", "a-b_c"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["agentId", "level", "x"]), inner),
    max_leaves=5,
)  # fmt: skip


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payload=st.dictionaries(NAMES, VALUES, max_size=6), content=st.booleans())
def test_both_clients_keep_the_same(folder: Path, payload: dict[str, Any], content: bool) -> None:
    """The compiled client's filter and the slow one's agree on any object."""
    if not client.is_compiled():
        pytest.skip("omn-agent was installed where no compiler was")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        (folder / "hooks").unlink(missing_ok=True)
        descriptor = os.open(folder, os.O_RDONLY)
        listener.bind(f"/proc/self/fd/{descriptor}/hooks")
        os.close(descriptor)
        listener.listen(1)
        hook(client.get_client(), folder, "on" if content else "off", payload)
        assert take(listener)["input"] == filter_input(payload, content)


def test_the_command_becomes_the_client(omn: Any, folder: Path, listener: socket.socket) -> None:
    """`omn agent hook` hands over what it is given, as the client that it becomes does."""
    ran = subprocess.run(
        [*omn.argv, "agent", "hook", "claude", str(folder), "on"],
        input=b'{"session_id":"s1"}', capture_output=True, env=omn.environment(),
    )  # fmt: skip
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")
    assert take(listener)["input"] == {"session_id": "s1"}


def test_damaged_input_is_read_without_a_fault_and_as_the_slow_client_reads_it(folder: Path, tmp_path: Path) -> None:
    """The client built with sanitizers, given objects with bytes changed, gone and put in: no fault, one reading."""
    sources = [str(Path(client.__file__).with_name(name)) for name in ("client.c", "filter.c", "json_scan.c")]
    flags = ["-g", "-O1", "-std=gnu11", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    program = compile_c(tmp_path, "sanitized", "", *flags, *sources)
    dice = random.Random(7)
    parts = (b'"', b"\\", b"\\u12", b"{", b"}", b"[", b"\xf0\x9f", b"\xed\xa0\x80", b"0", b"e", b"-", b",", b":")
    kept = 0
    for _ in range(60):
        text = bytearray(json.dumps(FULL, ensure_ascii=dice.random() < 0.5).encode())
        for _ in range(dice.randrange(4)):
            at = dice.randrange(len(text))
            change = dice.randrange(3)
            text[at : at + change] = dice.choice(parts) if dice.random() < 0.5 else bytes([dice.randrange(256)])
        environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}  # what a process ends with is nobody's loss
        ran = subprocess.run([program, "claude", str(folder), "on"], input=text, capture_output=True, env=environment)
        assert (ran.returncode, ran.stderr) == (0, b""), bytes(text)
        (event,) = list_spooled(folder)
        assert event["input"] == filter_input(parse_input(bytes(text)), False), bytes(text)
        kept += event["input"] is not None
        for path in (folder / "spool").iterdir():
            path.unlink()
    assert 0 < kept < 60

"""Real coding agents, recorded against a stand-in for their providers: `tox -e harnesses` installs them from npm."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import provider
import pytest
from agent_recording import read_maxima
from perfetto_reading import ReadTrace, read_trace
from provider import serve

pytestmark = pytest.mark.spec("AGT-7", "AGT-8")

WRITTEN = (b"PROMPTWORD", b"ARGWORD", b"CHILDWORD")
NEVER = (b"ANSWERWORD",)


@attrs.define
class Place:
    """A home, a working folder, and a provider on loopback."""

    omn: Any
    folder: Path
    provider: str
    is_cut: bool = False
    """Whether the recorder was killed in the last run."""

    def record(self, content: str, *command: str, options: tuple[str, ...] = (), **more: str) -> ReadTrace:
        """Record one run of an agent, and return what it makes.

        The folder of its output is no place to write at first, so that the journal stays and can be looked through
        beside what lies in the recorder's folder meanwhile: its sockets, its spool and what the agent is pointed at.
        """
        for name in ("home", "work", "own", "own/run"):
            (self.folder / name).mkdir(mode=0o700, exist_ok=True)
        program = Path(os.environ["HARNESSES"]) / command[0] if "/" not in command[0] else Path(command[0])
        environment = self.omn.environment() | {
            "HOME": str(self.folder / "home"), "OMN_CACHE_DIR": str(self.folder / "own" / "cache"),
            "XDG_RUNTIME_DIR": str(self.folder / "own" / "run"), "AGENTPROF_CAPTURE_CONTENTS": content, **more,
        }  # fmt: skip
        asked = [*self.omn.argv, "agent", "record", *options, "-o", "absent/out.pftrace", "--", str(program)]
        log = self.folder / "log"
        with log.open("wb") as said:
            recorder = subprocess.Popen(
                [*asked, *command[1:]], cwd=self.folder / "work", env=environment, stdin=subprocess.DEVNULL,
                stdout=said, stderr=said,
            )  # fmt: skip
        seen: dict[str, bytes] = {}
        with recorder:
            while recorder.poll() is None:
                seen |= self.read_written()
                time.sleep(0.05)
        assert recorder.returncode in (1, -signal.SIGKILL), log.read_text()
        self.is_cut = recorder.returncode < 0
        until = time.monotonic() + 60
        while self.is_cut and b"ANSWERWORD" not in log.read_bytes() and time.monotonic() < until:
            time.sleep(0.05)  # the agent goes on
        (journal,) = (self.folder / "own" / "cache" / "agent").glob("*.journal")
        seen[str(journal)] = journal.read_bytes()
        recovered = subprocess.run(
            [*self.omn.argv, "agent", "recover", str(journal), "-o", "out.pftrace"], cwd=self.folder / "work",
            env=environment, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert recovered.returncode == 0, recovered.stderr
        print(recovered.stdout)
        found = (self.folder / "work" / "out.pftrace").read_bytes()
        self.check_words(content, {**seen, **self.read_written(), "out.pftrace": found})
        return read_trace(found)

    def read_written(self) -> dict[str, bytes]:
        """Return the content of every file that the recorder has written now, by its path."""
        found = {}
        for folder, _, names in os.walk(self.folder / "own"):  # which passes over a folder that is gone meanwhile
            for path in (Path(folder, name) for name in names):
                with contextlib.suppress(OSError):  # a socket, or one that is gone
                    found[str(path)] = path.read_bytes()
        return found

    def check_words(self, content: str, written: dict[str, bytes]) -> None:
        """Hold that no file has a word that it is not to have; with content the journal has some, or nobody looked."""
        print(f"looked through {len(written)} files, {sum(map(len, written.values()))} bytes")
        for path, found in written.items():
            assert [word for word in NEVER if word in found] == [], path
            if content == "0":
                assert [word for word in WRITTEN if word in found] == [], path
        journaled = b"".join(found for path, found in written.items() if path.endswith(".journal"))
        assert (b'"k":"end"' in journaled) != self.is_cut
        assert any(word in journaled for word in WRITTEN) == (content == "1")


@pytest.fixture
def place(omn: Any, tmp_path: Path) -> Iterator[Place]:
    """A place to run an agent in."""
    with serve() as address:
        yield Place(omn, tmp_path, address)


@pytest.mark.parametrize("content", ["1", "0"])
def test_claude_code_and_its_subagent_are_recorded_by_their_hooks(place: Place, content: str) -> None:
    """Hooks of the launch run, tools have Claude's own durations, and the child is linked to its launch."""
    trace = place.record(
        content, "claude", "-p", "PROMPTWORD", "--allowedTools", "Bash", "Agent", ANTHROPIC_BASE_URL=place.provider,
        ANTHROPIC_API_KEY="none", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1", IS_SANDBOX="1",
        options=("--telemetry",),
    )  # fmt: skip
    main, child = trace.one("profile (1)"), trace.one("profile (2)")
    assert child.args["parent_session"] == main.args["session_id"]
    assert trace.one("Agent").args["child_session"] == child.args["session_id"]
    for tool in (trace.one("Bash"), trace.one("Agent")):
        assert tool.args["timing"] == "native-duration"
        assert 200_000_000 <= tool.end - tool.start <= tool.args["dispatch_ns"]
        assert len(tool.args["trace_span"]) == 16
    for response in trace.named("response"):
        assert response.args["timing"] == "request-including-retries"
        assert 0 < response.args["ttft_ms"] <= (response.end - response.start) / 1e6
    assert not [row for row in trace.slices if "incomplete" in row.args or "started_before_capture" in row.args]
    assert len(trace.named("response")) == 4
    assert read_maxima(trace, "Input tokens") == [200, 200]
    assert read_maxima(trace, "Output tokens") == [40, 40]


def test_a_claude_that_a_tool_of_claude_codes_runs_is_its_child(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs no hooks, and is found by its process: a capture in a process of its own, its tokens its own."""
    program = Path(os.environ["HARNESSES"]) / "claude"
    nested = f"NESTED=1 {program} -p CHILDWORD --allowedTools Bash < /dev/null"
    monkeypatch.setattr(provider, "COMMAND", f'if [ -z "$NESTED" ]; then {nested}; else sleep 0.2; fi; echo ARGWORD')
    trace = place.record(
        "1", "claude", "-p", "CHILDWORD PROMPTWORD", "--allowedTools", "Bash", ANTHROPIC_BASE_URL=place.provider,
        ANTHROPIC_API_KEY="none", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1", IS_SANDBOX="1",
    )  # fmt: skip
    outer, inner = trace.one("profile (1)"), trace.one("profile (2)")
    assert (inner.args["parent_session"], inner.args["stop_reason"]) == (outer.args["session_id"], "process-exit")
    ours, theirs = sorted(trace.named("Bash"), key=lambda row: row.start)
    assert ours.start < inner.start < theirs.start < theirs.end < inner.end < ours.end
    assert (ours.args["timing"], theirs.args["timing"]) == ("native-duration", "transcript-observed")
    assert len({row.process.pid for row in trace.descriptors.values() if row.HasField("process")}) == 2
    assert (read_maxima(trace, "Input tokens"), read_maxima(trace, "Output tokens")) == ([200, 200], [40, 40])


@pytest.mark.parametrize("content", ["1", "0"])
def test_codex_is_recorded_by_its_rollout_and_the_hooks_that_were_written(place: Place, content: str) -> None:
    """Its tool lasts from hook to hook; tokens are its rollout's."""
    home = place.folder / "codex"
    home.mkdir()
    (home / "config.toml").write_text(
        'model = "gpt-5.2-codex"\nmodel_provider = "near"\n[model_providers.near]\nname = "near"\n'
        f'base_url = "{place.provider}/v1"\nwire_api = "responses"\nenv_key = "NEAR_KEY"\n'
    )
    trace = place.record(
        content, "codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox",
        "--dangerously-bypass-hook-trust", "PROMPTWORD", options=("--write-hooks",), CODEX_HOME=str(home),
        NEAR_KEY="none",
    )  # fmt: skip
    tool = trace.one("exec_command")
    assert (tool.args["timing"], tool.args["is_error"]) == ("hook-dispatch", False)
    assert tool.end - tool.start >= 200_000_000
    assert trace.one("prompt").args.get("incomplete") is None
    assert "unknown_lines" not in trace.one("profile (1)").args
    assert (read_maxima(trace, "Input tokens"), read_maxima(trace, "Output tokens")) == ([200], [40])


MODEL = ("--provider", "near", "--model", "poppy")


def prepare_pi(place: Place) -> None:
    """Give Pi the model of the stand-in."""
    model = {"id": "poppy", "name": "poppy", "contextWindow": 100_000, "maxTokens": 1000, "reasoning": False}
    model |= {"input": ["text"], "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}}
    near = {"baseUrl": f"{place.provider}/v1", "apiKey": "none", "api": "openai-completions", "models": [model]}
    folder = place.folder / "home" / ".pi" / "agent"
    folder.mkdir(parents=True)
    (folder / "models.json").write_text(json.dumps({"providers": {"near": near}}))


def check_pi(trace: ReadTrace) -> None:
    """Hold what Pi's extension told: each thing has a beginning and an end of its own."""
    profile, prompt = trace.one("profile (1)"), trace.one("prompt")
    assert (profile.args["model"], profile.args["context_window_tokens"]) == ("poppy", 100_000)
    assert profile.args["stop_reason"] == "quit"
    assert (prompt.args["length"], prompt.args.get("incomplete")) == (10, None)
    attempt = trace.one("attempt")
    assert prompt.start <= attempt.start <= attempt.end <= prompt.end
    assert [row.args["index"] for row in sorted(trace.named("turn"), key=lambda row: row.start)] == [0, 1]
    assert [row.args["status_code"] for row in trace.named("request")] == [200, 200]
    for response in trace.named("response"):
        assert attempt.start < response.start < response.end < attempt.end
        assert 0 < response.args["first_content_ns"] <= response.args["duration_ns"]
        assert (response.args["updates"] > 0, response.args["bytes"] > 0, response.args["input_tokens"]) == (
            True,
            True,
            100,
        )
    assert not [row for row in trace.slices if "incomplete" in row.args or "start_not_recorded" in row.args]
    assert (read_maxima(trace, "Input tokens"), read_maxima(trace, "Output tokens")) == ([200], [40])


@pytest.mark.parametrize("content", ["1", "0"])
def test_pi_is_recorded_by_the_extension_that_it_loads(place: Place, content: str) -> None:
    """Its first package, which has neither a run's settling nor a tool's own duration."""
    prepare_pi(place)
    trace = place.record(content, "pi", *MODEL, "-p", "PROMPTWORD")
    check_pi(trace)
    tool = trace.one("bash")
    assert (tool.end - tool.start >= 200_000_000, tool.args["updates"] > 0, "timing" in tool.args) == (
        True,
        True,
        False,
    )


@pytest.mark.parametrize("content", ["1", "0"])
def test_a_script_of_pis_has_its_calls_inside_it(place: Place, content: str) -> None:
    """A later package, with scripts that call its tools: the call names its script, and lies in it."""
    later = Path(os.environ["LATER_HARNESSES"])
    prepare_pi(place)
    path = f"{later}:{os.environ['PATH']}"  # it takes a later node, which stands beside it
    trace = place.record(
        content, str(later / "pi"), *MODEL, "--no-session", "--tools", "+codemode", "-p", "PROMPTWORD",
        PATH=path,
    )  # fmt: skip
    check_pi(trace)
    script, call = trace.one("codemode"), trace.one("bash")
    assert (script.args["kind"], script.args["language"]) == ("script", "javascript")
    assert script.args.get("line_count") == (2 if content == "1" else None)
    assert call.args["parent_call_id"] == script.args["call_id"]
    assert script.start < call.start < call.end <= script.end
    assert call.args["duration_ns"] >= 200_000_000
    assert set(script.flows) & set(call.flows)
    assert trace.one("profile (1)").args["session_labels"] == ["codemode"]


@pytest.mark.parametrize("content", ["1", "0"])
def test_pis_that_pi_starts_are_its_children(place: Place, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    """The package's own subagents run its program again, without a session file; a shell finds it by its name."""
    monkeypatch.setattr(provider, "COMMAND", f'[ -n "$DEEP" ] || DEEP=1 pi {" ".join(MODEL)} -p "CHILDWORD too"')
    extension = Path(os.environ["HARNESSES"], "pi").resolve().parents[1] / "examples" / "extensions" / "subagent"
    prepare_pi(place)
    agents = place.folder / "home" / ".pi" / "agent" / "agents"
    agents.mkdir()
    (agents / "scout.md").write_text("---\nname: scout\ndescription: looks\nmodel: near/poppy\n---\nLook.\n")
    trace = place.record(
        content, "pi", *MODEL, "-e", str(extension / "index.ts"), "-p", "PROMPTWORD",
        PATH=f"{os.environ['HARNESSES']}:{os.environ['PATH']}",
    )  # fmt: skip
    captures = [trace.one(f"profile ({number})") for number in (1, 2, 3)]
    first, second, _ = (row.args["session_id"] for row in captures)
    assert [row.args.get("parent_session") for row in captures] == [None, first, second]
    assert [row.args["stop_reason"] for row in captures] == ["quit"] * 3
    assert len({row.process.pid for row in trace.descriptors.values() if row.HasField("process")}) == 3
    launch = trace.one("subagent")
    assert (launch.args["delegation"], launch.args["child_session"]) == (True, second)
    assert launch.args.get("subagent_type") == ("scout" if content == "1" else None)
    assert launch.start < captures[1].start < captures[2].start < captures[2].end < captures[1].end < launch.end
    assert not [row for row in trace.slices if "incomplete" in row.args]
    assert (read_maxima(trace, "Input tokens"), read_maxima(trace, "Output tokens")) == ([200] * 3, [40] * 3)


@pytest.mark.spec("AGT-9")
def test_a_pi_that_is_killed_leaves_its_unfinished_work_incomplete(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own tool kills it: what was done is whole, what was under way is incomplete, and nothing is made up."""
    monkeypatch.setattr(provider, "COMMAND", "kill -9 $PPID")
    prepare_pi(place)
    trace = place.record("0", "pi", *MODEL, "-p", "PROMPTWORD")
    profile = trace.one("profile (1)")
    assert (profile.args["stop_reason"], "incomplete" in profile.args) == ("harness-exit", False)
    for name in ("prompt", "attempt", "turn", "bash"):
        assert trace.one(name).args["incomplete"] is True
    assert "incomplete" not in trace.one("response").args
    assert read_maxima(trace, "Input tokens") == [100]


@pytest.mark.spec("AGT-9")
def test_a_pi_goes_on_without_its_recorder_and_what_was_recorded_is_recovered(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own tool kills the recorder: the capture stays open, and what nobody took is counted."""
    monkeypatch.setattr(provider, "COMMAND", "sleep 3; kill -9 $(cut -d' ' -f4 /proc/$PPID/stat)")
    prepare_pi(place)
    trace = place.record("0", "pi", *MODEL, "-p", "PROMPTWORD")
    assert place.is_cut
    profile = trace.one("profile (1)")
    assert (profile.end, profile.args["hook_drops"] > 0) == (None, True)
    assert trace.one("prompt").args["length"] == len("PROMPTWORD")


@pytest.mark.spec("AGT-9")
def test_two_pis_at_once_have_a_recording_each(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one provider, each with a tool that waits for the other's: each file has what is its own."""
    (place.folder / "met").mkdir()
    meet = f"cd {place.folder / 'met'}; touch $$; while [ $(ls | wc -l) -lt 2 ]; do sleep 0.1; done; echo met"
    monkeypatch.setattr(provider, "COMMAND", meet)
    places = [Place(place.omn, place.folder / name, place.provider) for name in ("first", "second")]
    for other in places:
        other.folder.mkdir()
        prepare_pi(other)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        traces = list(pool.map(lambda other: other.record("0", "pi", *MODEL, "-p", "PROMPTWORD"), places))
    for trace in traces:
        check_pi(trace)
    first, second = (trace.one("profile (1)") for trace in traces)
    assert first.args["session_id"] != second.args["session_id"]
    assert first.start < second.end
    assert second.start < first.end

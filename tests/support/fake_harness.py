"""A coding agent that is none: a program that writes session files and runs hooks as a script of Python tells it to.

It is run by its path, in place of a harness, with the script's path in FAKE_SCRIPT. The script has the classes below to
tell what to do. Every word of content ends in WORD, so that a test can look for any.
"""

from __future__ import annotations

import datetime
import gzip
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any


def stamp() -> str:
    """Return now as Claude Code and Codex write it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Claude:
    """Claude Code's part: lines of a session file, and the hooks of the plugins that it was given."""

    def __init__(self, session: str | None = None, child_of: Claude | None = None) -> None:
        self.session = session or (child_of.session if child_of is not None else str(uuid.uuid4()))
        self.agent = f"{uuid.uuid4().hex[:12]}" if child_of is not None else None
        self.hooks = read_hooks() if child_of is None else child_of.hooks
        root = Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude") / "projects"
        folder = root / re.sub(r"[^A-Za-z0-9]", "-", os.getcwd())
        self.path = folder / f"{self.session}.jsonl"
        if self.agent is not None:
            self.path = folder / self.session / "subagents" / f"agent-{self.agent}.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.life = uuid.uuid4().hex
        self.count = 0

    def line(self, kind: str, text: str | None = None, **fields: Any) -> None:
        """Append a line; `text` is written as it is."""
        record = {
            "type": kind, "uuid": str(uuid.uuid4()), "timestamp": stamp(), "sessionId": self.session,
            "cwd": os.getcwd(), "isSidechain": self.agent is not None, "version": "2.1.300", **fields,
        }  # fmt: skip
        if self.agent is not None:
            record["agentId"] = self.agent
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n" if text is None else text)

    def hook(self, event: str, **fields: Any) -> None:
        """Run the hooks of an event, one after another, each to its end."""
        payload = {
            "session_id": self.session, "transcript_path": str(self.path), "cwd": os.getcwd(), "hook_event_name": event,
            "permission_mode": "default", **fields,
        }  # fmt: skip
        if self.agent is not None:
            payload |= {"agent_id": self.agent, "agent_type": "Explore"}
        for command in self.hooks.get(event, []):
            subprocess.run(command, input=json.dumps(payload).encode(), check=False)

    def appear(self) -> None:
        """Say in the file of this process which session it has."""
        folder = Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude") / "sessions"
        folder.mkdir(parents=True, exist_ok=True)
        started = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
        told = {"pid": os.getpid(), "sessionId": self.session, "procStart": started, "cwd": os.getcwd()}
        (folder / f"{os.getpid()}.json").write_text(json.dumps(told))

    def start(self, source: str = "startup") -> None:
        """Begin the session."""
        self.hook("SessionStart", source=source, model="poppy-5")

    def prompt(self, text: str = "PROMPTWORD") -> None:
        """Take a prompt."""
        self.hook("UserPromptSubmit", prompt=text)
        self.line("user", message={"role": "user", "content": text})

    def answer(self, tokens: tuple[int, int] = (100, 20), calls: Any = ()) -> None:
        """Answer, and call tools."""
        self.count += 1
        content: list[dict[str, Any]] = [{"type": "text", "text": "ANSWERWORD"}]
        content += [{"type": "tool_use", "id": call, "name": name, "input": args} for call, name, args in calls]
        message = {
            "id": f"msg-{self.life}-{self.count}", "role": "assistant", "model": "poppy-5", "content": content,
            "usage": {"input_tokens": tokens[0], "output_tokens": tokens[1]}, "stop_reason": "end_turn",
        }  # fmt: skip
        self.line("assistant", message=message, requestId=f"req-{self.life}-{self.count}")

    def begin(self, call: str, name: str = "Bash", **args: Any) -> dict[str, Any]:
        """Ask for a tool, and let hooks know."""
        given = args or {"command": "make ARGWORD"}
        self.answer(calls=[(call, name, given)])
        self.hook("PreToolUse", tool_name=name, tool_input=given, tool_use_id=call)
        return given

    def finish(self, call: str, name: str = "Bash", duration_ms: int | None = 3, **fields: Any) -> None:
        """Have a tool's result, and let hooks know."""
        response = {"stdout": "RESULTWORD", **fields}
        more = {} if duration_ms is None else {"duration_ms": duration_ms}
        self.hook("PostToolUse", tool_name=name, tool_use_id=call, tool_response=response, **more)
        block = {"type": "tool_result", "tool_use_id": call, "content": "RESULTWORD"}
        self.line("user", message={"role": "user", "content": [block]}, toolUseResult=response)

    def tool(self, call: str, name: str = "Bash", **args: Any) -> None:
        """Call a tool and have its result."""
        self.begin(call, name, **args)
        self.finish(call, name)

    def delegate(self, call: str) -> Claude:
        """Launch a subagent that answers once, and have its result."""
        self.begin(call, "Agent", prompt="CHILDWORD", subagent_type="Explore")
        child = Claude(child_of=self)
        child.line("user", message={"role": "user", "content": "CHILDWORD"})
        time.sleep(0.005)  # Claude Code has written the task before it runs the hook
        child.hook("SubagentStart")
        child.tool(f"{call}-inner")
        child.answer((30, 7))
        child.hook("SubagentStop", agent_transcript_path=str(child.path), last_assistant_message="ANSWERWORD")
        self.finish(call, "Agent", agentId=child.agent)
        return child

    def stop(self) -> None:
        """Be done with a prompt."""
        self.answer((200, 45))
        self.hook("Stop", last_assistant_message="ANSWERWORD")

    def end(self, reason: str = "prompt_input_exit") -> None:
        """End the session."""
        self.hook("SessionEnd", reason=reason)


class Telemetry:
    """Claude Code's telemetry: OTLP's JSON, to where the environment says; nothing where it says nothing."""

    def __init__(self, agent: Claude) -> None:
        self.agent = agent
        self.address = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").removeprefix("http://")
        self.headers = dict([os.environ.get("OTEL_EXPORTER_OTLP_HEADERS", "=").split("=", 1)])
        self.connection = http.client.HTTPConnection(self.address) if self.address else None

    def send(self, path: str, body: Any, way: str = "plain", **headers: str) -> int | None:
        """Send a body, plain, compressed or in chunks, and return the status."""
        if self.connection is None:
            return None
        content = json.dumps(body).encode() if not isinstance(body, bytes) else body
        sent = {**self.headers, "Content-Type": "application/json", **headers}
        if way == "gzip":
            content, sent["Content-Encoding"] = gzip.compress(content), "gzip"
        chunks = [content[at : at + 100] for at in range(0, len(content), 100)]
        self.connection.request("POST", path, iter(chunks) if way == "chunked" else content, sent,
                                encode_chunked=way == "chunked")  # fmt: skip
        answer = self.connection.getresponse()
        answer.read()
        return answer.status

    def attributes(self, **fields: Any) -> list[dict[str, Any]]:
        """Return attributes with those that ride on every record."""
        given = {"session.id": self.agent.session, "user.email": "ACCOUNTWORD", "user.account_uuid": "ACCOUNTWORD",
                 "prompt": "PROMPTWORD", **fields}  # fmt: skip
        return [{"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
                for key, value in given.items()]  # fmt: skip

    def event(self, name: str, way: str = "plain", **fields: Any) -> int | None:
        """Tell of an event that is over now."""
        given = self.attributes(**{"event.name": name, **fields})
        record = {
            "timeUnixNano": str(time.time_ns()),
            "body": {"stringValue": f"claude_code.{name}"},
            "attributes": given,
        }
        return self.send("/v1/logs", {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}, way)

    def span(self, name: str, span: str, parent: str, start_ns: int, way: str = "plain", **fields: Any) -> int | None:
        """Tell of a span that ends now."""
        record = {"traceId": "ab" * 16, "spanId": span, "parentSpanId": parent, "name": f"claude_code.{name}",
                  "startTimeUnixNano": str(start_ns), "endTimeUnixNano": str(time.time_ns()),
                  "attributes": self.attributes(**fields)}  # fmt: skip
        return self.send("/v1/traces", {"resourceSpans": [{"scopeSpans": [{"spans": [record]}]}]}, way)


class Codex:
    """Codex's part: a rollout that stays open while the program runs."""

    def __init__(self, session: str | None = None) -> None:
        self.session = session or str(uuid.uuid4())
        root = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex") / "sessions"
        now = datetime.datetime.now()
        folder = root / now.strftime("%Y/%m/%d")
        folder.mkdir(parents=True, exist_ok=True)
        self.file = (folder / f"rollout-{now:%Y-%m-%dT%H-%M-%S}-{self.session}.jsonl").open("a", buffering=1)
        self.line("session_meta", id=self.session, timestamp=stamp(), cwd=os.getcwd(), cli_version="0.150.0")
        self.line("turn_context", model="poppy-5", effort="high")

    def hook(self, event: str, **fields: Any) -> None:
        """Run the hooks of an event that the configuration has, in a shell; trusted as they are."""
        path = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex") / "hooks.json"
        groups = json.loads(path.read_text())["hooks"].get(event, []) if path.exists() else []
        payload = {"session_id": self.session, "transcript_path": self.file.name, "hook_event_name": event, **fields}
        for handler in (handler for group in groups for handler in group["hooks"]):
            subprocess.run(["sh", "-c", handler["command"]], input=json.dumps(payload).encode(), check=False)

    def line(self, kind: str, **payload: Any) -> None:
        """Append a line."""
        self.file.write(json.dumps({"timestamp": stamp(), "type": kind, "payload": payload}) + "\n")

    def prompt(self) -> None:
        """Take a prompt."""
        self.line("event_msg", type="user_message", message="PROMPTWORD")

    def tool(self, call: str) -> None:
        """Call a tool and have its result."""
        args = json.dumps({"command": ["make", "ARGWORD"]})
        self.line("response_item", type="function_call", call_id=call, name="shell", arguments=args)
        output = json.dumps({"output": "RESULTWORD", "metadata": {"exit_code": 0}})
        self.line("response_item", type="function_call_output", call_id=call, output=output)

    def answer(self) -> None:
        """Answer, and count tokens."""
        text = [{"type": "output_text", "text": "ANSWERWORD"}]
        self.line("response_item", type="message", role="assistant", content=text)
        self.line("event_msg", type="agent_message", message="ANSWERWORD")
        usage = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}
        self.line("event_msg", type="token_count", info={"last_token_usage": usage, "total_token_usage": usage})


class Pi:
    """Pi's part: a session file that is appended to."""

    def __init__(self) -> None:
        self.session = str(uuid.uuid4())
        root = Path(os.environ.get("PI_CODING_AGENT_DIR") or Path.home() / ".pi" / "agent") / "sessions"
        folder = root / f"--{os.getcwd().strip('/').replace('/', '-')}--"
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{stamp()}_{self.session}.jsonl"
        self.last: str | None = None
        self.write({"type": "session", "version": 3, "id": self.session, "cwd": os.getcwd()})

    def write(self, record: dict[str, Any]) -> None:
        """Append a line."""
        with self.path.open("a") as file:
            file.write(json.dumps({"timestamp": stamp(), **record}) + "\n")

    def message(self, role: str, **fields: Any) -> None:
        """Append a message to the branch."""
        made = uuid.uuid4().hex[:8]
        self.write({"type": "message", "id": made, "parentId": self.last, "message": {"role": role, **fields}})
        self.last = made


class Muse:
    """Muse Code's part: a log of events, opened for each or, where it is to be, held."""

    def __init__(self, session: str | None = None, is_held: bool = False) -> None:
        self.session = session or str(uuid.uuid4())
        root = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "muse" / "sessions"
        self.path = root / datetime.datetime.now().strftime("%Y/%m/%d") / self.session / "session.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.count = 0
        self.held = self.path.open("a") if is_held else None
        self.write("runtime.session.metadata", {"record": {"workspace_root": os.getcwd(), "model_id": "poppy-5"}})

    def write(self, kind: str, payload: dict[str, Any]) -> None:
        """Append an event."""
        self.count += 1
        record = {
            "schema_version": 1, "id": f"e{self.count}", "stream": {"kind": "session", "id": self.session},
            "sequence": self.count, "recorded_at": time.time_ns() // 1000, "payload_type": kind, "payload": payload,
        }  # fmt: skip
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")

    def run(self, kind: str, **event: Any) -> None:
        """Append an event of the run."""
        self.write("runtime.session", {"kind": "run", "event": {"kind": kind, **event}})


def read_hooks() -> dict[str, list[list[str]]]:
    """Return the commands of each event, of the plugins on the command line."""
    found: dict[str, list[list[str]]] = {}
    for at, argument in enumerate(sys.argv):
        if argument == "--plugin-dir":
            folder = Path(sys.argv[at + 1])
            assert json.loads((folder / ".claude-plugin" / "plugin.json").read_text())["name"]
            for event, groups in json.loads((folder / "hooks" / "hooks.json").read_text())["hooks"].items():
                handlers = [handler for group in groups for handler in group["hooks"]]
                found[event] = [[handler["command"], *handler["args"]] for handler in handlers]
    return found


def say(word: str) -> None:
    """Tell the test how far it is, on standard output."""
    print(word, flush=True)


def wait() -> None:
    """Wait for a line of the test's on standard input."""
    sys.stdin.readline()


def die() -> None:
    """Be killed."""
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    script = Path(os.environ["FAKE_SCRIPT"])
    exec(compile(script.read_text(), str(script), "exec"), globals())

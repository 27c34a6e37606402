"""Claude Code's own telemetry as a source of events: a receiver of OTLP on the loopback, for this launch alone."""

from __future__ import annotations

import hmac
import json
import os
import secrets
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from omn_agent.harness import Harness
from omn_agent.importing.fields import find_text
from omn_agent.recorder.channels import Channel, Channels
from omn_agent.recorder.event import HarnessEvent, Launch, Preparation
from omn_agent.recorder.http_requests import BadRequest, HttpRequest, RequestReader
from omn_agent.recorder.places import get_claude_home
from omn_agent.recorder.telemetry import iter_logs, iter_spans
from omn_core.api import MachineRefused

SILENT = (
    "claude's telemetry told nothing (its version, settings or policies keep it): responses have no measured length, "
    "and no tool names its processes"
)
_ASKED = {
    "CLAUDE_CODE_ENABLE_TELEMETRY": "1",
    "CLAUDE_CODE_ENHANCED_TELEMETRY_BETA": "1",
    "CLAUDE_CODE_PROPAGATE_TRACEPARENT": "1",
    "OTEL_LOGS_EXPORTER": "otlp",
    "OTEL_TRACES_EXPORTER": "otlp",
    "OTEL_METRICS_EXPORTER": "none",
    "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json",
    "OTEL_LOGS_EXPORT_INTERVAL": "1000",
    "OTEL_TRACES_EXPORT_INTERVAL": "1000",
    "OTEL_LOG_USER_PROMPTS": "0",
    "OTEL_LOG_TOOL_DETAILS": "0",
    "OTEL_LOG_TOOL_CONTENT": "0",
    "OTEL_LOG_RAW_API_BODIES": "0",
    "OTEL_LOG_ASSISTANT_RESPONSES": "0",
}
"""What makes Claude Code tell, once a second, and nothing of what anybody wrote.

What a tool runs has the tool's span by default only where the requests go to Anthropic itself.
"""

_TOKEN_HEADER = "x-omn-recorder"  # noqa: S105  # the header's name
_OWN = ("CLAUDE_CODE_ENABLE_TELEMETRY", "OTEL_")
_MANAGED = Path("/etc/claude-code/managed-settings.json")
_PATHS = {"/v1/logs": iter_logs, "/v1/traces": iter_spans}
_CHUNK = 1 << 16
_MOST_CONNECTIONS = 64


@attrs.define
class TelemetrySource:
    """The receiver. Whoever does not have this launch's token is told nothing and kept nothing of."""

    harness: Harness
    _token: str = attrs.field(factory=lambda: secrets.token_hex(16))
    _channels: Channels[RequestReader] = attrs.field(
        factory=lambda: Channels("telemetry", RequestReader, _CHUNK, _MOST_CONNECTIONS)
    )
    _received: int = 0

    def prepare(self, launch: Launch) -> Preparation:
        """Listen, and ask Claude Code to tell; a person's own exporter stays what it is, and is said."""
        own = find_exporter(launch.environment)
        if own is not None:
            return Preparation(degradations=(f"claude's telemetry goes where {own} says, and is not taken from there",))
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.bind(("127.0.0.1", 0))
            self._channels.listen(listener, _MOST_CONNECTIONS)
        except OSError as error:
            listener.close()
            raise MachineRefused(f"no port of the loopback can be listened at: {error.strerror}") from error
        told = {
            **_ASKED,
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{listener.getsockname()[1]}",
            "OTEL_EXPORTER_OTLP_HEADERS": f"{_TOKEN_HEADER}={self._token}",
        }
        for name in ("NO_PROXY", "no_proxy"):
            told[name] = ",".join(filter(None, (launch.environment.get(name), "127.0.0.1")))
        return Preparation(environment=told)

    def fileno(self) -> int:
        """Return the epoll that the listener and its connections are in."""
        return self._channels.fileno()

    def receive(self) -> Iterator[HarnessEvent]:
        """Yield the events of every request that is whole, each answered as soon as it was read."""
        for channel, content in self._channels.receive():
            yield from self._take(channel, content)

    def count_losses(self) -> Mapping[str, int]:
        """Return what was lost: requests that cannot be read, and those without the token."""
        return self._channels.losses

    def list_degradations(self) -> Sequence[str]:
        """Say that nothing was told, where something was to be."""
        return (SILENT,) if self._channels.is_listening and not self._received else ()

    def close(self) -> None:
        """Close the listener and its connections."""
        self._channels.close()

    def _take(self, channel: Channel[RequestReader], content: bytes) -> Iterator[HarnessEvent]:
        try:
            for request in channel.state.feed(content):
                events = list(self._read(request))
                self._answer(channel, 200)
                yield from events
        except BadRequest as error:
            self._channels.lose("telemetry_refused" if error.status == 401 else "telemetry_malformed")
            self._answer(channel, error.status)
            self._channels.drop(channel)

    def _read(self, request: HttpRequest) -> Iterator[HarnessEvent]:
        if not hmac.compare_digest(request.headers.get(_TOKEN_HEADER, "").encode(), self._token.encode()):
            raise BadRequest(401)
        read = _PATHS.get(request.path)
        if request.method != "POST" or read is None:
            raise BadRequest(404)
        try:
            told = list(read(request.body))
        except (ValueError, RecursionError):
            raise BadRequest(400) from None
        now_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        for name, payload in told:
            self._received += 1
            yield HarnessEvent(self.harness, now_ns, find_text(payload, "session_id"), f"telemetry.{name}", payload)

    def _answer(self, channel: Channel[RequestReader], status: int) -> None:
        """Answer in one piece: a sender that takes none of so little is gone."""
        end = "" if status == 200 else "Connection: close\r\n"
        head = f"HTTP/1.1 {status} -\r\nContent-Type: application/json\r\nContent-Length: 2\r\n{end}\r\n"
        try:
            channel.socket.send(head.encode() + b"{}", socket.MSG_NOSIGNAL)
        except OSError:
            self._channels.lose("telemetry_connection")


def find_exporter(environment: Mapping[str, str]) -> str | None:
    """Return what sets an exporter of the person's own: the environment, or a file of settings, which wins over it."""
    if any(name.startswith(_OWN) for name in environment):
        return "the environment"
    home = get_claude_home(environment)
    project = Path(".claude").absolute()
    for path in (home / "settings.json", project / "settings.json", project / "settings.local.json", _MANAGED):
        try:
            settings = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
        variables = settings.get("env") if isinstance(settings, dict) else None
        if isinstance(variables, dict) and any(str(name).startswith(_OWN) for name in variables):
            return repr(os.fspath(path))
    return None

"""Claude Code's telemetry, received: requests of HTTP however they are cut, who may tell, and what is kept of it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from agent_recording import Bench
from omn_agent.recorder import http_requests
from omn_agent.recorder.http_requests import BadRequest, RequestReader
from omn_agent.recorder.telemetry import iter_logs, iter_spans
from omn_agent.recorder.telemetry_source import find_exporter

pytestmark = pytest.mark.spec("AGT-7")

HEAD = b"POST /v1/logs HTTP/1.1\r\nX-Token: t\r\n"


@pytest.fixture
def bench(omn: Any, tmp_path: Path) -> Bench:
    """A home, a working folder and programs."""
    made = Bench(omn, tmp_path)
    made.prepare()
    return made


@pytest.mark.parametrize(
    "content",
    [
        HEAD + b"Content-Length: 5\r\n\r\nhello",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n",
        HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(gzip.compress(b"hello"))
        + gzip.compress(b"hello"),
    ],
    ids=["whole", "chunked", "gzip"],
)  # fmt: skip
def test_a_request_is_whole_however_its_bytes_come(content: bytes) -> None:
    """Byte by byte, two in one piece, and what follows stays for later."""
    by_bytes = RequestReader()
    (read,) = [request for at in range(len(content)) for request in by_bytes.feed(content[at : at + 1])]
    assert (read.method, read.path, read.headers["x-token"], read.body) == ("POST", "/v1/logs", "t", b"hello")
    both = RequestReader()
    assert [request.body for request in both.feed(content * 2 + HEAD)] == [b"hello"] * 2
    assert [request.body for request in both.feed(content.removeprefix(HEAD))] == [b"hello"]


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"no request\r\n\r\n", 400),
        (HEAD + b"Content-Length: -1\r\n\r\n", 400),
        (HEAD + b"Content-Length: 99999999999\r\n\r\n", 413),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n-5\r\n", 413),
        (HEAD + b"Content-Encoding: br\r\nContent-Length: 1\r\n\r\nx", 415),
        (HEAD + b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nxxxx", 400),
        (b"x" * (http_requests.LONGEST_HEAD + 1), 431),
    ],
)
def test_what_is_no_request_or_too_long_is_refused(content: bytes, status: int) -> None:
    """Nothing is held that is longer than may be."""
    with pytest.raises(BadRequest) as caught:
        list(RequestReader().feed(content))
    assert caught.value.status == status


def test_what_unpacks_to_more_than_is_kept_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small body may unpack to any length: it is unpacked no further than may be."""
    monkeypatch.setattr(http_requests, "LONGEST_BODY", 1000)
    packed = gzip.compress(bytes(100_000))
    with pytest.raises(BadRequest) as caught:
        list(
            RequestReader().feed(HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed)
        )
    assert caught.value.status == 413


@pytest.mark.spec("AGT-8")
def test_only_what_is_named_is_kept() -> None:
    """Numbers that come as texts are numbers, a broken shape is nothing, and what nobody named is nowhere."""
    value = {"stringValue": "SECRET"}
    attributes = [
        {"key": "event.name", "value": {"stringValue": "claude_code.api_request"}},
        {"key": "duration_ms", "value": {"stringValue": "12"}},
        {"key": "input_tokens", "value": {"intValue": "7"}},
        {"key": "model", "value": {"stringValue": "poppy" * 100}},
        {"key": "success", "value": {"boolValue": True}},
        {"key": "request_id", "value": {"kvlistValue": {}}},
        *({"key": name, "value": value} for name in ("user.email", "prompt", "tool_parameters", "error", "session")),
        {"key": 3},
        "nothing",
    ]
    records = [{"timeUnixNano": "5", "attributes": attributes, "body": value}, {"attributes": []}, 7]
    body = json.dumps({"resourceLogs": [{"resource": value, "scopeLogs": [{"logRecords": records}]}, {"scopeLogs": 1}]})
    assert list(iter_logs(body.encode())) == [
        ("api_request", {"duration_ms": 12, "input_tokens": 7, "model": ("poppy" * 40), "success": True, "unix_ns": 5})
    ]
    span = {
        "name": "claude_code.tool",
        "spanId": "AB" * 8,
        "parentSpanId": "",
        "startTimeUnixNano": 4,
        "attributes": {},
    }
    traces = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span, {"name": 1}]}]}]}).encode()
    assert list(iter_spans(traces)) == [("span.tool", {"start_unix_ns": 4, "span_id": "ab" * 8})]
    assert list(iter_spans(b"[]")) == []


SESSION = """
agent = Claude("s1"); agent.start(); agent.prompt()
telemetry = Telemetry(agent)
begun = time.time_ns()
agent.tool("c1")
request = f"req-{agent.life}-1"
said = [
    telemetry.event("api_request", "chunked", request_id=request, duration_ms=7, model="poppy-5"),
    telemetry.event("user_prompt", "gzip"),
    telemetry.span("llm_request", "00" * 7 + "01", "", begun, request_id=request, ttft_ms=3),
    telemetry.span("tool.execution", "00" * 7 + "03", "00" * 7 + "02", begun),
    telemetry.span("tool", "00" * 7 + "02", "", begun, tool_use_id="c1"),
    telemetry.event("api_request", request_id="nobody's", duration_ms=1),
    telemetry.send("/v1/metrics", {}),
]
said += [Telemetry(agent).send("/v1/logs", b"{", "chunked")]
stranger = Telemetry(agent); stranger.headers = {}
said += [stranger.event("api_request", request_id=request, duration_ms=999_999)]
agent.stop(); agent.end()
Path("said.json").write_text(json.dumps([said, sorted(name for name in os.environ if name.startswith("OTEL_LOG_"))]))
"""


@pytest.mark.spec("AGT-8", "AGT-10")
@pytest.mark.parametrize("content", ["1", "0"])
def test_requests_have_their_lengths_and_nothing_of_an_account_is_kept(bench: Bench, content: str) -> None:
    """Whole, chunked or compressed; who does not have the token, or tells no JSON, is refused and counted."""
    ran = bench.record(SESSION, "--telemetry", AGENTPROF_CAPTURE_CONTENTS=content)
    assert (ran.code, ran.stderr) == (0, "")
    said, switches = json.loads((bench.work / "said.json").read_text())
    assert said == [200, 200, 200, 200, 200, 200, 404, 400, 401]
    assert len(switches) == 5
    assert "telemetry refused: 1" in ran.stdout
    assert "telemetry malformed: 2" in ran.stdout
    assert "telemetry of no response: 1" in ran.stdout
    assert "degraded" not in ran.stdout
    trace = bench.read()
    timed, other = sorted(trace.named("response"), key=lambda row: row.args.get("timing"))
    assert (timed.args["timing"], timed.args["ttft_ms"], timed.is_instant) == ("request-including-retries", 3.0, False)
    assert (other.args["timing"], other.is_instant) == ("transcript-observed", True)
    assert trace.one("Bash").args["trace_span"] == "0000000000000003"
    assert not bench.find_words(b"ACCOUNTWORD")
    assert bool(bench.find_words(b"PROMPTWORD")) == (content == "1")


def test_an_exporter_of_a_persons_own_stays_and_silence_is_said(bench: Bench) -> None:
    """Neither is it replaced nor listened to; a harness without telemetry is not asked for it."""
    script = """
        agent = Claude("s1"); agent.start(); agent.prompt(); agent.stop(); agent.end()
        Path("seen").write_text(os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "none"))
    """
    own = bench.record(script, "--telemetry", OTEL_EXPORTER_OTLP_ENDPOINT="http://mine.test")
    assert "claude's telemetry goes where the environment says" in own.stderr
    assert (bench.work / "seen").read_text() == "http://mine.test"
    silent = bench.record(script, "--telemetry", "-o", "two.pftrace")
    assert "degraded: claude's telemetry told nothing" in silent.stdout
    assert (bench.work / "seen").read_text().startswith("http://127.0.0.1:")
    assert bench.record("", "--telemetry", "-o", "three.pftrace", harness="codex").code == 2
    assert not bench.journals()


def test_settings_that_name_an_exporter_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They win over the environment, the project's as the person's; settings of other things are none."""
    monkeypatch.chdir(tmp_path)
    environment = {"HOME": str(tmp_path / "home")}
    assert find_exporter(environment) is None
    for place in ("home/.claude/settings.json", ".claude/settings.local.json"):
        path = tmp_path / place
        path.parent.mkdir(parents=True)
        path.write_text("{")
        assert find_exporter(environment) is None
        path.write_text(json.dumps({"env": {"OTHER": "x"}}))
        assert find_exporter(environment) is None
        path.write_text(json.dumps({"env": {"OTEL_TRACES_EXPORTER": "otlp"}}))
        assert find_exporter(environment) == repr(str(path))
        path.unlink()
    assert find_exporter({"CLAUDE_CODE_ENABLE_TELEMETRY": "1"}) == "the environment"

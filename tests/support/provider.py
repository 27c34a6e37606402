"""A stand-in for the providers of coding agents, on loopback: it asks for one command, and answers once it has run.

It speaks Anthropic's messages and OpenAI's responses and chat completions, streamed, as far as the agents need them.
The words that it says end in WORD: a model's answer is ANSWERWORD, a command's argument ARGWORD.
"""

from __future__ import annotations

import contextlib
import http.server
import itertools
import json
import threading
from collections.abc import Iterator
from typing import Any

COMMAND = "sleep 0.2; echo ARGWORD"
SCRIPT = f"const ran = await tools.bash({{ command: {json.dumps(COMMAND)} }});\nreturn ran.exit_code;\n"
_NUMBERS = itertools.count(1)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        """Answer that it is there."""
        self._answer(b"", "text/plain")

    def do_GET(self) -> None:
        """Know of nothing."""
        self._answer(b"{}", "application/json", 404)

    def do_POST(self) -> None:
        """Answer a request for a response."""
        request = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
        for path, make in (
            ("/messages", make_message),
            ("/responses", make_response),
            ("/completions", make_completion),
        ):
            if self.path.partition("?")[0].endswith(path):
                self._answer(make(request).encode(), "text/event-stream")
                return
        self._answer(b'{"input_tokens": 100}', "application/json")

    def _answer(self, content: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.send_header("request-id", f"req_{next(_NUMBERS)}")
        self.end_headers()
        self.wfile.write(content)


@contextlib.contextmanager
def serve() -> Iterator[str]:
    """Serve on loopback and give the address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def make_message(request: dict[str, Any]) -> str:
    """Return Anthropic's events: a subagent first where there may be one, then a command, then an answer."""
    messages, tools = request["messages"], {tool.get("name") for tool in request.get("tools", [])}
    is_child = "CHILDWORD" in json.dumps(messages[0])
    is_done = any(part.get("type") == "tool_result" for row in messages for part in _list_parts(row))
    number = next(_NUMBERS)
    call: dict[str, Any] | None = None
    if "Agent" in tools and not is_child and not is_done:
        given = {"description": "look", "prompt": "CHILDWORD", "subagent_type": "general-purpose",
                 "run_in_background": False}  # fmt: skip
        call = {"name": "Agent", "input": given}
    elif "Bash" in tools and not is_done:
        call = {"name": "Bash", "input": {"command": COMMAND, "description": "say it"}}
    message = {
        "id": f"msg_{number}", "type": "message", "role": "assistant", "model": request["model"], "content": [],
        "stop_reason": None, "usage": {"input_tokens": 100, "output_tokens": 1},
    }  # fmt: skip
    block: dict[str, Any] = {"type": "text", "text": ""}
    delta = {"type": "text_delta", "text": "ANSWERWORD"}
    if call is not None:
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": call["name"], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call["input"])}
    reason = "end_turn" if call is None else "tool_use"
    events = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 20}},
        {"type": "message_stop"},
    ]
    return _stream(events)


def make_response(request: dict[str, Any]) -> str:
    """Return OpenAI's events of a response."""
    number = next(_NUMBERS)
    is_done = any(item.get("type") == "function_call_output" for item in request["input"])
    item: dict[str, Any] = {"type": "message", "id": f"msg_{number}", "role": "assistant"}
    item["content"] = [{"type": "output_text", "text": "ANSWERWORD"}]
    if not is_done:
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": "exec_command"}
        item["arguments"] = json.dumps({"cmd": COMMAND})
    usage = {
        "input_tokens": 100, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 120,
    }  # fmt: skip
    response = {"id": f"resp_{number}", "object": "response", "status": "completed", "output": [item], "usage": usage}
    events = [
        {"type": "response.created", "response": {"id": response["id"]}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ]
    return _stream(events)


def make_completion(request: dict[str, Any]) -> str:
    """Return OpenAI's chunks of a chat completion: a subagent where there may be one, else a script, or a command."""
    number = next(_NUMBERS)
    is_done = any(message["role"] == "tool" for message in request["messages"])
    names = {tool["function"]["name"] for tool in request.get("tools", [])}
    function = {"name": "bash", "arguments": json.dumps({"command": COMMAND})}
    if "subagent" in names:
        function = {"name": "subagent", "arguments": json.dumps({"agent": "scout", "task": "CHILDWORD"})}
    elif "codemode" in names:
        function = {"name": "codemode", "arguments": json.dumps({"code": SCRIPT})}
    call = {"index": 0, "id": f"call_{number}", "type": "function", "function": function}
    delta = {"role": "assistant", "content": "ANSWERWORD"} if is_done else {"role": "assistant", "tool_calls": [call]}
    chunk = {"id": f"c{number}", "object": "chat.completion.chunk", "created": 1, "model": request["model"]}
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    chunks = [
        {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop" if is_done else "tool_calls"}]},
        {**chunk, "choices": [], "usage": usage},
    ]
    return "".join(f"data: {json.dumps(row)}\n\n" for row in chunks) + "data: [DONE]\n\n"


def _list_parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return content if isinstance(content, list) else []


def _stream(events: list[dict[str, Any]]) -> str:
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)

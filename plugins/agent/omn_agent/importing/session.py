"""A session under construction: what a file said of it, in any order, and the capture that this makes."""

from __future__ import annotations

import bisect
from typing import Any

import attrs

from omn_agent.importing.fields import add_counts
from omn_agent.recording import (
    TRANSCRIPT_OBSERVED,
    Capture,
    Compaction,
    Configuration,
    Delegation,
    Prompt,
    Request,
    Response,
    Samples,
    Tool,
    Usage,
    Workflow,
)


@attrs.define
class Session:
    """Everything that was read of one session. Times are of its file's stamps."""

    session_id: str
    parent_session: str | None = None
    is_fresh: bool = True
    prompts: list[Prompt] = attrs.field(factory=list)
    requests: list[Request] = attrs.field(factory=list)
    responses: list[Response] = attrs.field(factory=list)
    tools: dict[str, Tool] = attrs.field(factory=dict)
    compactions: list[Compaction] = attrs.field(factory=list)
    workflows: list[Workflow] = attrs.field(factory=list)
    other_usages: list[tuple[int, Usage]] = attrs.field(factory=list)
    context: list[tuple[int, int]] = attrs.field(factory=list)
    heap: list[tuple[int, int]] = attrs.field(factory=list)
    configurations: list[tuple[int, Configuration]] = attrs.field(factory=list)
    interruptions: list[int] = attrs.field(factory=list)
    fields: dict[str, Any] = attrs.field(factory=dict)
    by_request: dict[str, Response] = attrs.field(factory=dict)
    """Responses by the id of their request or, in Pi, by their own stamp: what other sources say of one is its."""
    first_ns: int | None = None
    last_ns: int | None = None

    def note_time(self, ts_ns: int) -> None:
        """Take a record's stamp into the session's window."""
        self.first_ns = ts_ns if self.first_ns is None else min(self.first_ns, ts_ns)
        self.last_ns = ts_ns if self.last_ns is None else max(self.last_ns, ts_ns)

    def add_prompt(self, ts_ns: int, text: str | None, source: str | None = None) -> None:
        """Add a task that was given."""
        self.prompts.append(Prompt(ts_ns, None, text=text, source=source))

    def add_response(self, ts_ns: int, model: str | None, usage: Usage, **fields: Any) -> Response:
        """Add a response that was complete at its stamp; when it began no session file says."""
        response = Response(None, ts_ns, model=model, usage=usage, timing=TRANSCRIPT_OBSERVED)
        for name, value in fields.items():
            setattr(response, name, value)
        self.responses.append(response)
        return response

    def add_call(self, ts_ns: int, call_id: str, name: str, args: Any) -> Tool:
        """Add a tool's call, at the stamp of the line that asked for it. One that is there already stays."""
        tool = Tool(name, call_id, ts_ns, None, args=args, has_args=args is not None, timing=TRANSCRIPT_OBSERVED)
        return self.tools.setdefault(call_id, tool)

    def add_result(self, ts_ns: int, call_id: str, name: str | None = None) -> Tool:
        """Add a tool's result, at its stamp: its call's end, or a completion whose call nobody recorded."""
        tool = self.tools.setdefault(call_id, Tool(name or "tool", call_id, None, ts_ns, timing=TRANSCRIPT_OBSERVED))
        if tool.end_ns is None:
            tool.end_ns = ts_ns if tool.start_ns is None else max(ts_ns, tool.start_ns)
        return tool

    def delegate(self, tool: Tool, child: str | None, **launch: str | None) -> None:
        """Make a tool the launch of a child."""
        known = {name: value[:200] for name, value in launch.items() if value is not None}
        if tool.delegation is None:
            tool.delegation = Delegation(known, child)
        else:
            tool.delegation.launch = {**tool.delegation.launch, **known}
            tool.delegation.child_session = tool.delegation.child_session or child

    def configure(self, ts_ns: int, **changes: Any) -> None:
        """Take what is known of the configuration from this time on; what does not change makes no span."""
        last = self.configurations[-1][1] if self.configurations else Configuration()
        known = {name: value for name, value in changes.items() if value is not None}
        changed = attrs.evolve(last, **known)
        if changed != last or not self.configurations:
            self.configurations.append((ts_ns, changed))

    def make_capture(self, capture_id: str, stop_reason: str, has_content: bool) -> Capture | None:
        """Return the session as a capture over what its stamps span, None where it has no stamp."""
        if self.first_ns is None or self.last_ns is None:
            return None
        self._end_prompts(self.last_ns)
        (_, configuration), *changes = self._merge_configurations() or [(0, Configuration())]
        return Capture(
            session_id=self.session_id,
            capture_id=capture_id,
            start_ns=self.first_ns,
            end_ns=self.last_ns,
            stop_reason=stop_reason,
            configuration=configuration,
            changes=changes,
            has_content=has_content,
            is_fresh=self.is_fresh,
            parent_session=self.parent_session,
            fields=self.fields,
            prompts=self.prompts,
            requests=self.requests,
            responses=self.responses,
            tools=list(self.tools.values()),
            compactions=self.compactions,
            workflows=self.workflows,
            samples=Samples(context_tokens=sorted(self.context), heap_bytes=sorted(self.heap)),
            other_usages=self.other_usages,
        )

    def _merge_configurations(self) -> list[tuple[int, Configuration]]:
        """Return the configurations by time. Those before the first response or prompt were never worked with."""
        ordered = sorted(self.configurations, key=lambda pair: pair[0])
        worked = [row.start_ns for row in self.prompts]
        worked += [row.end_ns for row in self.responses if row.end_ns is not None]
        first_ns = min(worked, default=0)
        while len(ordered) > 1 and ordered[1][0] <= first_ns:
            ordered.pop(0)
        return ordered

    def _end_prompts(self, last_ns: int) -> None:
        """End each prompt at the last that was done before the next; what was interrupted has no end of its own."""
        self.prompts.sort(key=lambda prompt: prompt.start_ns)
        rows: list[Response | Tool] = [*self.responses, *self.tools.values()]
        done = [row.end_ns for row in rows if row.end_ns is not None]
        unfinished = [row.start_ns for row in self.tools.values() if row.end_ns is None and row.start_ns is not None]
        following = [*(prompt.start_ns for prompt in self.prompts), last_ns + 1][1:]
        for prompt, until_ns in zip(self.prompts, following, strict=True):
            inside = [ts_ns for ts_ns in done if prompt.start_ns <= ts_ns < until_ns]
            is_cut = any(prompt.start_ns <= ts_ns < until_ns for ts_ns in (*unfinished, *self.interruptions))
            if inside and not is_cut and prompt.end_ns is None:
                prompt.end_ns = max(inside)
        self._cut_tools()

    def _cut_tools(self) -> None:
        """Let a tool without a result be over when the person interrupted or went on to the next prompt."""
        cuts = sorted([*self.interruptions, *(prompt.start_ns for prompt in self.prompts)])
        for tool in self.tools.values():
            if tool.end_ns is None and tool.start_ns is not None:
                place = bisect.bisect_right(cuts, tool.start_ns)
                tool.interrupted_ns = cuts[place] if place < len(cuts) else None


def make_usage(
    input_tokens: int | None,
    output_tokens: int | None,
    cache_read: int | None = None,
    cache_write: int | None = None,
    total: int | None = None,
) -> Usage:
    """Return reported tokens."""
    return Usage(input_tokens, output_tokens, cache_read, cache_write, total)


def merge_usage(first: Usage, second: Usage) -> Usage:
    """Return the larger of each field: what was reported of one response in several states."""
    fields = {}
    for name in attrs.fields_dict(Usage):
        known = [value for value in (getattr(first, name), getattr(second, name)) if value is not None]
        fields[name] = max(known) if known else None
    return Usage(**fields)


def compute_context_with_cache(usage: Usage) -> int | None:
    """Return the context of a response whose input leaves its cache out, None where no input was reported."""
    if usage.input_tokens is None:
        return None
    return add_counts(usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens)

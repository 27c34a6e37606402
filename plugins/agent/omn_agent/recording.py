"""A recording in the contract's own terms: what one or more sessions of a coding agent did, and when.

Times are nanoseconds of the recording's clock. None is unknown everywhere: an end that is None is work that nobody saw
finish, a start that is None a completion that nobody saw begin. Neither is made up later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from omn_export.perfetto.tracks import Clock, ClockSnapshot

from omn_agent.context import ContextSnapshot
from omn_agent.harness import ALL_AREAS, Area, Harness
from omn_agent.machine.model import Machine

TRANSCRIPT_OBSERVED = "transcript-observed"
"""The timing of what was read from a session file's stamps."""

NATIVE_DURATION = "native-duration"
"""The timing of what the harness itself measured, and told."""


@attrs.frozen
class Usage:
    """Tokens as a provider reported them, in its own meaning; a field it did not report is None."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    total_tokens: int | None = None


@attrs.define
class Turn:
    """One round of an attempt: a response and the tools it called."""

    index: int | None
    start_ns: int
    end_ns: int | None


@attrs.define
class Attempt:
    """One try at a prompt."""

    start_ns: int
    end_ns: int | None
    turns: list[Turn] = attrs.field(factory=list)


@attrs.define
class Prompt:
    """One task a person, a parent or the harness gave. `length` counts UTF-16 units of the whole `text`."""

    start_ns: int
    end_ns: int | None
    length: int | None = None
    text: str | None = None
    source: str | None = None
    started_before_capture: bool = False
    attempts: list[Attempt] = attrs.field(factory=list)


@attrs.define
class Request:
    """A request to a provider, from its start to the headers of the answer; one of the two times is known."""

    start_ns: int | None
    end_ns: int | None
    status_code: int | None = None
    context_messages: int | None = None
    provider: str | None = None
    model: str | None = None
    timing: str | None = None
    context: ContextSnapshot | None = None


@attrs.define
class Response:
    """An assistant's message. `end_ns` None is one that was interrupted; one of the two times is known."""

    start_ns: int | None
    end_ns: int | None
    provider: str | None = None
    model: str | None = None
    usage: Usage = Usage()
    stop_reason: str | None = None
    first_content_ns: int | None = None
    ttft_ms: float | None = None
    updates: int | None = None
    size_bytes: int | None = None
    timing: str | None = None
    context: ContextSnapshot | None = None


@attrs.define
class ModelCall:
    """A call of a model that a script made. `start_ns` is None where it was never seen running."""

    name: str
    start_ns: int | None
    end_ns: int | None
    provider: str | None = None
    model: str | None = None
    call_id: str | None = None


@attrs.define
class Script:
    """What makes a tool call a script: its language, and its source where content is kept."""

    language: str
    source: str | None = None
    is_partial: bool = False
    model_calls: list[ModelCall] = attrs.field(factory=list)


@attrs.define
class Delegation:
    """What makes a tool call the launch of a child: bounded ids, and the child it returned."""

    launch: Mapping[str, Any] = attrs.field(factory=dict)
    child_session: str | None = None


@attrs.define
class Tool:
    """A tool's execution. `args` is its input as it was given; `usage` what the tool itself reported, nested included.

    `preflight_ns` is when the harness announced it, None where it announced nothing. `interrupted_ns` is by when it was
    over without an end that anybody saw; without it such a tool lasts as long as its capture.
    """

    name: str
    call_id: str
    start_ns: int | None
    end_ns: int | None
    args: Any = None
    has_args: bool = False
    args_length: int | None = None
    """The UTF-16 units of an input that the harness keeps as a text: what is told of it without content."""
    is_error: bool | None = None
    middleware_is_error: bool | None = None
    updates: int | None = None
    result_bytes: int | None = None
    parent_call_id: str | None = None
    intent: str | None = None
    timing: str | None = None
    duration_ns: int | None = None
    dispatch_ns: int | None = None
    """From its announcement to its end as they were observed: permission and hooks are in it, and in no execution."""
    preflight_ns: int | None = None
    middleware_ns: int | None = None
    """When its result was seen on its way back, by what also saw `middleware_is_error`."""
    interrupted_ns: int | None = None
    trace_span: str | None = None
    """The span that what it runs is executed in: what a process of its own has in its TRACEPARENT."""
    script: Script | None = None
    delegation: Delegation | None = None
    usage: Usage = Usage()


@attrs.define
class Compaction:
    """A context that was made smaller, or was to be. `tokens_after` is None where nobody said."""

    start_ns: int | None
    end_ns: int | None
    reason: str | None = None
    outcome: str | None = None
    will_retry: bool | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    usage: Usage = Usage()
    resets_context: bool = True
    timing: str | None = None
    context: ContextSnapshot | None = None


@attrs.define
class Workflow:
    """An orchestration event outside the tools; with `is_child` an interval of a child workflow."""

    name: str
    start_ns: int
    end_ns: int | None
    is_instant: bool = False
    is_child: bool = False
    fields: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class Configuration:
    """What a session ran with. None is what the harness did not say."""

    model: str | None = None
    provider: str | None = None
    effort: str | None = None
    context_window_tokens: int | None = None
    session_labels: tuple[str, ...] = ()


@attrs.define
class Samples:
    """Readings over a capture, each a list of (time, value)."""

    context_tokens: list[tuple[int, int]] = attrs.field(factory=list)
    resident_bytes: list[tuple[int, int]] = attrs.field(factory=list)
    heap_bytes: list[tuple[int, int]] = attrs.field(factory=list)
    cpu_us: list[tuple[int, int]] = attrs.field(factory=list)
    dropped_events: list[tuple[int, int]] = attrs.field(factory=list)
    queue_depth: list[tuple[int, int]] = attrs.field(factory=list)


@attrs.frozen
class Process:
    """The operating system's process of a capture: its ids, when it started, and labels where it is one agent's."""

    pid: int
    tid: int | None
    start_ns: int | None = None
    labels: tuple[str, ...] = ()


@attrs.define
class Capture:
    """One recorded window of one session."""

    session_id: str
    capture_id: str
    start_ns: int
    end_ns: int | None
    stop_reason: str | None = None
    native_session_id: str | None = None
    label: str | None = None
    process: Process | None = None
    configuration: Configuration = Configuration()
    changes: list[tuple[int, Configuration]] = attrs.field(factory=list)
    areas: frozenset[Area] = ALL_AREAS
    has_content: bool = True
    is_fresh: bool = True
    started_before_capture: bool = False
    parent_session: str | None = None
    fields: dict[str, Any] = attrs.field(factory=dict)
    prompts: list[Prompt] = attrs.field(factory=list)
    requests: list[Request] = attrs.field(factory=list)
    responses: list[Response] = attrs.field(factory=list)
    tools: list[Tool] = attrs.field(factory=list)
    compactions: list[Compaction] = attrs.field(factory=list)
    workflows: list[Workflow] = attrs.field(factory=list)
    snapshots: list[tuple[int, ContextSnapshot]] = attrs.field(factory=list)
    samples: Samples = attrs.field(factory=Samples)
    other_usages: list[tuple[int, Usage]] = attrs.field(factory=list)
    """Tokens that were reported of no response, compaction or tool: what warmed a cache, what summed a branch up."""


@attrs.define
class Recording:
    """Everything one file holds. `boot` names the machine's boot, None where nobody knows it."""

    harness: Harness
    captures: list[Capture] = attrs.field(factory=list)
    clock: Clock = Clock.REALTIME
    clock_uncertainty_ns: int | None = None
    clock_snapshots: list[ClockSnapshot] = attrs.field(factory=list)
    boot: str | None = None
    machine: Machine | None = None

"""What stands between a number and the truth, as sentences of the text format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from omn_core.format.scale import render_count, render_duration
from omn_core.model.losses import Losses
from omn_core.model.request import RequestWindow
from omn_core.model.resolved import Link, LinkState, ResolvedRequest
from omn_core.model.result import Cost, Document, FilterAccount, ProgramResult, Result
from omn_core.model.target import Target
from omn_core.model.walks import WalkChoice
from omn_core.model.watched import Adopted, Window
from omn_core.names import render_printable

_LONGEST_NAME = 240
_WORTH_SAYING = 0.05
"""The share of a program's cpu from which that of the processes it started is named apart."""

_PASSED_OVER = {
    LinkState.MODE: "does not serve this mode",
    LinkState.EMITS: "cannot answer what was asked",
    LinkState.TARGET: "does not serve this target",
    LinkState.KEYS: "does not carry these keys",
    LinkState.FILTER: "does not carry what the filter names",
    LinkState.BAND: "costs more than was allowed",
    LinkState.UNCOLLECTED: "is collected by nothing installed here",
}


def render_asked(result: Result) -> str:
    """Return what was asked in a sentence: source, emits, mode, target, and what narrows it, its own window last."""
    resolved = result.resolved
    every = "" if resolved.interval_ns is None else f" every {render_duration(resolved.interval_ns)}"
    parts = [f"{resolved.mode}{every}", f"of {_render_target(resolved.target)}"]
    if resolved.value != resolved.entry.value:
        parts.append(f"measuring {_name(resolved.value)} in {resolved.unit}")
    if resolved.keys:
        parts.append(f"by {' and '.join(resolved.keys)}")
    if resolved.request.filter is not None:
        parts.append(f"where {_name(resolved.request.filter)}")
    if resolved.request.window is not None:
        parts.append(_render_own_window(resolved.request.window))
    name = resolved.entry.id if resolved.request.id is None else f"{resolved.request.id} = {resolved.entry.id}"
    return f"{_name(name)}: {', '.join(map(str, resolved.emits))}; {', '.join(parts)}"


def render_chosen(resolved: ResolvedRequest) -> str:
    """Return the backend that served, its cost band, that this is more than was asked, and that it was forced."""
    forced = ", forced by the request" if resolved.pinned else ""
    over = "" if resolved.over_band is None else f", more than the band {resolved.over_band}"
    return f"{resolved.backend.id}, cost {resolved.backend.cost}{over}{forced}"


def render_passed_over(resolved: ResolvedRequest) -> list[str]:
    """Return a clause for each backend that would have served before the chosen one, and what kept it from it.

    One that serves another mode or another kind of target was never an answer to this question; the document's chain
    holds it all the same.
    """
    clauses = []
    for link in resolved.chain:
        if link.state in (LinkState.SELECTED, LinkState.AVAILABLE):
            break
        if link.state not in (LinkState.MODE, LinkState.TARGET):
            clauses.append(_render_link(link))
    return clauses


def render_walk(choice: WalkChoice) -> str:
    """Return how stacks are walked, and what kept a better way that this machine has from suiting the target."""
    if choice.asked == choice.walk:
        return f"walked by {choice.walk}, as asked"
    unsuited = [
        f"{link.backend}: {_name(link.reason or '')}" for link in choice.chain if link.state is LinkState.TARGET
    ]
    return f"walked by {choice.walk}" + (f" ({'; '.join(unsuited)})" if unsuited else "")


def render_filter(account: FilterAccount) -> str:
    """Return what a filter removed, and the fields it names that no event carried."""
    total = account.kept + account.dropped
    where = "in the kernel" if account.applied_by == "kernel" else "by omn"
    kept = f"{render_count(account.kept)} of {render_count(total)} events"
    text = f"{_name(account.expression)} kept {kept}, applied {where}"
    if account.absent_fields:
        text += f"; no event carried {', '.join(map(_name, account.absent_fields))}"
    return text


def render_losses(losses: Losses) -> list[str]:
    """Return a clause for each kind of loss and each reason, and one for what `>=` marks where it does."""
    marked = ["figures marked >= are lower bounds"] if losses.is_lower_bound else []
    return render_lost(losses) + marked


def render_lost(losses: Losses) -> list[str]:
    """Return a clause for each kind of loss and each reason."""
    kinds = (
        (losses.dropped, "events dropped"),
        (losses.throttled, "periods throttled, holding an unknown number of events"),
        (losses.failed_reads, "readings failed"),
        (losses.skipped, "program runs skipped by the kernel"),
        (losses.evicted, "events evicted, older than what was retained"),
        (losses.late_ticks, f"rounds late, with {render_count(losses.swallowed)} readings swallowed"),
    )
    clauses = [f"{render_count(count)} {what}" for count, what in kinds if count]
    if losses.swallowed and not losses.late_ticks:
        clauses.append(f"{render_count(losses.swallowed)} readings swallowed")
    return clauses + [_name(reason) for reason in losses.reasons]


def render_run(document: Document) -> str:
    """Return what several requests share: how many they are, their window, and the program that was it."""
    runs = f", in {len(document.repeats)} runs" if document.repeats else ""
    while_ran = "" if document.program is None else f", of {_render_words(document.program.argv)}"
    window = render_duration(document.window.length_ns)
    return f"{len(document.results)} requests over {window}{while_ran}{runs}"


def render_window(result: Result, run: Window) -> str:
    """Return the window's length, where it began in a longer run, and its events with their uncertainty."""
    word = "event" if result.events_seen == 1 else "events"
    length = render_duration(result.window.length_ns)
    if result.resolved.request.window is not None and result.window.length_ns:
        length += f" from {render_duration(result.window.opened_ns - run.opened_ns)} on"
    return f"{length}, {render_events(result, word)}"


def render_events(result: Result, word: str = "") -> str:
    """Return how many events a window saw, with a word for them, and how uncertain their times are."""
    text = f"{render_count(result.events_seen)} {word}".rstrip()
    if result.ts_err_ns is not None:
        text += f", stamped within {render_duration(result.ts_err_ns)}"
    if result.row_stamp is not None:
        text += f", rows stamped at {_name(result.row_stamp)}"
    return text


def render_program(program: ProgramResult) -> str:
    """Return what became of the program: how it ended, how long it lived, what cpu it used."""
    if program.exit is None:
        ended = "ended with a status that could not be read"
    elif "signal" in program.exit:
        ended = f"was killed by {_name(str(program.exit['signal']))}"
    else:
        ended = f"exited with {program.exit.get('code')}"
    text = f"{_render_words(program.argv)} (pid {program.pid}) {ended}"
    if program.lifetime_ns is not None:
        text += f" after {render_duration(program.lifetime_ns)}"
    if program.cpu_ns is None:
        return text
    text += f", having used {render_duration(program.cpu_ns)} of cpu"
    started_ns = program.cpu_ns - (program.cpu_ns if program.own_cpu_ns is None else program.own_cpu_ns)
    if started_ns < _WORTH_SAYING * program.cpu_ns:
        return text
    return f"{text}, {render_duration(started_ns)} of it in processes that it started"


def render_adopted(adopted: Sequence[Adopted]) -> str:
    """Return the processes that outlived the program that started them."""
    each = [f"{_name(one.comm)} ({one.pid}{', ended' if one.ended else ', not ended'})" for one in adopted]
    return f"{len(adopted)} outlived the program that started them: {', '.join(each)}"


def list_stops(document: Document) -> list[str]:
    """List a sentence for each request that the budget stopped, of a repeated run each run's."""
    budgets = [run.extras.get("budget") for run in document.repeats or (document,)]
    return list(dict.fromkeys(said for budget in budgets if budget is not None for said in budget["said"]))


def render_budget(budget: Mapping[str, Any]) -> str:
    """Return whether a budget was held, and what was done to hold it."""
    verdicts = {True: "held", False: "not held", None: "not known to be held"}
    against = {"target_cpu": "the target's cpu", "window": "the window"}[budget["against"]]
    text = f"budget of {budget['percent']:g} % of {against} {verdicts[budget['within']]}"
    counts = [(len(budget["moves"]), "moved"), (len(budget["said"]), "stopped")]
    done = [f"{count} {'request' if count == 1 else 'requests'} {what}" for count, what in counts if count]
    return ", ".join([text, *done])


def render_cost(cost: Cost) -> list[str]:
    """Return what the run cost: omn's own cpu and its share, what was spent inside the target, what is not known."""
    own = f"omn used {render_duration(cost.window_ns)} of cpu in the window"
    if cost.own_percent is not None:
        own += f", {cost.own_percent:.3g} % of the target's own {render_duration(cost.target_ns)}"
    clauses = [f"{own}; {render_duration(cost.before_ns)} before it and {render_duration(cost.after_ns)} after"]
    if cost.in_target_ns is None:
        clauses.append("what was spent inside the target is not known")
    elif cost.in_target_ns:
        whole = "" if cost.percent is None else f", {cost.percent:.3g} % with it"
        clauses.append(f"{render_duration(cost.in_target_ns)} inside the target{whole}")
    if cost.in_target_left_out:
        clauses.append(f"{render_count(cost.in_target_left_out)} accounts of it could not be read")
    if cost.in_target_unknown:
        clauses.append(f"nothing accounts for what {', '.join(cost.in_target_unknown)} spent there")
    return clauses


def _render_link(link: Link) -> str:
    reason = link.reason or _PASSED_OVER.get(link.state, "")
    text = f"{_name(link.backend)} {link.state.value}" + (f": {_name(reason)}" if reason else "")
    return text if link.remedy is None else f"{text} ({_name(link.remedy)})"


def _render_own_window(window: RequestWindow) -> str:
    start = f"from {render_duration(window.start_ns or 0)}"
    return start + (" of the run on" if window.stop_ns is None else f" to {render_duration(window.stop_ns)} of the run")


def _render_target(target: Target) -> str:
    if target.kind == "system":
        return "the whole machine"
    if target.kind == "launch":
        return _render_words(target.value)
    values = target.value if isinstance(target.value, tuple) else (target.value,)
    return f"{target.kind} {', '.join(_name(str(value)) for value in values)}"


def _render_words(words: Sequence[str]) -> str:
    import shlex

    return render_printable(shlex.join(words), 60)


def _name(text: str) -> str:
    return render_printable(text, _LONGEST_NAME)

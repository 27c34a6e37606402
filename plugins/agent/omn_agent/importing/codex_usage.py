"""Tokens of a rollout: which of its accounts is to be trusted, and which part of it is its parent's, replayed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from omn_agent.importing.fields import find_count, find_text, get_object
from omn_agent.importing.session import Session, make_usage
from omn_agent.recording import Usage

Record = tuple[int | None, str, dict[str, Any], int | None]
"""A record's stamp, its kind, its payload and its ordinal."""

_FIELDS = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens", "total_tokens")

Totals = tuple[int | None, ...]


def find_replayed(records: Sequence[Record], meta: dict[str, Any], parent: Sequence[Record] | None) -> int:
    """Return how many records at the beginning are the parent's: they are restamped and look like this session's own.

    Below the ordinal that the file itself names; else up to the last of the longest run of totals with which the
    parent began too. 0 where neither is known.
    """
    start = find_count(meta, "subagent_history_start_ordinal")
    if start is not None:
        replayed = [at for at, row in enumerate(records) if row[3] is not None and row[3] < start]
        return max(replayed, default=-1) + 1
    if parent is None:
        return 0
    theirs = [totals for _, totals in _list_accounts(parent)]
    last = 0
    for place, (index, totals) in enumerate(_list_accounts(records)):
        if place >= len(theirs) or theirs[place] != totals:
            break
        last = index + 1
    return last


def add_usage(session: Session, records: Sequence[Record], replayed: Sequence[Record]) -> None:
    """Add the session's responses, from the best account of tokens that its file has.

    A record for each response; else what each event says of the last response; else how its totals grew. Totals that
    stand still are the same event once more. What was replayed is where the totals begin.
    """
    if any(kind == "token_usage_record" for _, kind, _, _ in records):
        _add_recorded(session, records)
    elif any(_get_info(row) for row in records):
        baseline = None
        for _, totals in _list_accounts(replayed):
            baseline = totals
        _add_counted(session, records, baseline)
    else:
        _add_messages(session, records)


def _add_recorded(session: Session, records: Sequence[Record]) -> None:
    summing = {find_text(payload, "compaction_response_id") for _, kind, payload, _ in records if kind == "compacted"}
    seen: set[str] = set()
    for ts_ns, kind, payload, _ in records:
        _take_window(session, ts_ns, payload)
        response = find_text(payload, "response_id")
        if kind != "token_usage_record" or ts_ns is None or response in seen:
            continue
        if response is not None:
            seen.add(response)
        usage = get_object(payload, "usage")
        if response is not None and response in summing:
            session.other_usages.append((ts_ns, _make_usage(usage)))
            continue
        _add_response(session, ts_ns, usage)


def _add_counted(session: Session, records: Sequence[Record], baseline: Totals | None) -> None:
    for row in records:
        info, ts_ns = _get_info(row), row[0]
        if not info or ts_ns is None:
            continue
        _take_window(session, ts_ns, row[2])
        totals = _get_totals(get_object(info, "total_token_usage"))
        if totals is not None and totals == baseline:
            continue
        last = get_object(info, "last_token_usage")
        if not last and totals is not None:
            last = _compute_growth(totals, baseline)
        baseline = totals if totals is not None else baseline
        _add_response(session, ts_ns, last)


def _compute_growth(totals: Totals, baseline: Totals | None) -> dict[str, int]:
    """Return what totals grew by. Where any of them is less than before they began anew, and are what there is."""
    before = [then or 0 for then in baseline] if baseline is not None else [0] * len(_FIELDS)
    if any(now is not None and now < then for now, then in zip(totals, before, strict=True)):
        before = [0] * len(_FIELDS)
    grown = zip(_FIELDS, totals, before, strict=True)
    return {name: now - then for name, now, then in grown if now is not None}


def _add_messages(session: Session, records: Sequence[Record]) -> None:
    """Add responses of a file that has no account of tokens: the assistant's messages, their usage unknown."""
    for ts_ns, kind, payload, _ in records:
        is_message = kind == "response_item" and payload.get("type") == "message" and payload.get("role") == "assistant"
        if is_message and ts_ns is not None:
            session.add_response(ts_ns, _get_model(session, ts_ns), Usage())


def _add_response(session: Session, ts_ns: int, usage: dict[str, Any]) -> None:
    session.add_response(ts_ns, _get_model(session, ts_ns), _make_usage(usage))
    context = find_count(usage, "input_tokens")
    if context is not None:
        session.context.append((ts_ns, context))


def _make_usage(usage: dict[str, Any]) -> Usage:
    """Return reported tokens. Input holds what was cached, output what was reasoned."""
    return make_usage(
        find_count(usage, "input_tokens"),
        find_count(usage, "output_tokens"),
        find_count(usage, "cached_input_tokens"),
        find_count(usage, "cache_write_input_tokens"),
        find_count(usage, "total_tokens"),
    )


def _get_model(session: Session, ts_ns: int) -> str | None:
    models = [configuration.model for at, configuration in session.configurations if at <= ts_ns]
    return models[-1] if models else None


def _take_window(session: Session, ts_ns: int | None, payload: dict[str, Any]) -> None:
    window = find_count(get_object(payload, "info"), "model_context_window")
    if window is not None and ts_ns is not None:
        session.configure(ts_ns, context_window_tokens=window)


def _get_info(record: Record) -> dict[str, Any]:
    """Return a token count's figures. `info` is null where the event tells of rate limits alone."""
    _, kind, payload, _ = record
    is_count = kind == "event_msg" and payload.get("type") == "token_count"
    return get_object(payload, "info") if is_count else {}


def _get_totals(usage: dict[str, Any]) -> Totals | None:
    totals = tuple(find_count(usage, name) for name in _FIELDS)
    return totals if any(total is not None for total in totals) else None


def _list_accounts(records: Sequence[Record]) -> list[tuple[int, Totals]]:
    """Return (index, figures) of each account of tokens: a count's totals, or a recorded response's usage."""
    found = []
    for index, row in enumerate(records):
        source = get_object(row[2], "usage") if row[1] == "token_usage_record" else _get_info(row)
        totals = _get_totals(source if row[1] == "token_usage_record" else get_object(source, "total_token_usage"))
        if totals is not None:
            found.append((index, totals))
    return found

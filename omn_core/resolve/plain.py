"""A resolved session as plain values: what `--dump-resolved` prints and `resolved.json` holds."""

from __future__ import annotations

from typing import Any

from omn_core.model.resolved import Link, ResolvedRequest, ResolvedSession
from omn_core.session.composed import make_plain_composition
from omn_core.session.duration import render_duration
from omn_core.session.shape import make_plain_request


def make_plain_resolved(resolved: ResolvedSession, plugins: dict[str, str]) -> dict[str, Any]:
    """Return the session beside the machine it was resolved on, so that two records explain two machines' answers."""
    session = resolved.session
    return {
        "environment": resolved.environment,
        "plugins": plugins,
        "launch": None if session.program is None else list(session.program),
        "duration": None if session.duration_ns is None else render_duration(session.duration_ns),
        "cost": session.cost_band,
        "composed": make_plain_composition(session),
        "requests": [_make_plain(request) for request in resolved.requests],
    }


def _make_plain(resolved: ResolvedRequest) -> dict[str, Any]:
    return {
        "request": {
            **make_plain_request(resolved.request),
            "mode": resolved.mode,
            "emits": [str(emit) for emit in resolved.emits],
            "keys": list(resolved.keys),
            "target": resolved.target.to_plain(),
            "filter": resolved.request.filter,
            "value": resolved.value,
        },
        "found": None if resolved.bound is None else dict(resolved.bound.described),
        "unit": resolved.unit,
        "backend": resolved.backend.id,
        "cost": resolved.backend.cost,
        "pinned": resolved.pinned,
        "chain": [make_plain_link(link) for link in resolved.chain],
        "stacks": None if resolved.walk is None else resolved.walk.to_plain(),
        "defaulted": list(resolved.defaulted),
        "degraded": list(resolved.degraded),
        "unverified": list(resolved.unverified),
        "filter_applied_by": resolved.filter_applied_by,
        "interval": None if resolved.interval_ns is None else render_duration(resolved.interval_ns),
    }


def make_plain_link(link: Link) -> dict[str, Any]:
    """Return one backend of a walked chain."""
    return {"backend": link.backend, "state": link.state.value, "reason": link.reason}

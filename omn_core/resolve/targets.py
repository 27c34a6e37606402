"""Finding a target on this machine with the binder of its kind, a plugin's or the core's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omn_core.errors import PLUGIN_FAULTS, NotCollected, Refused, RunFailed
from omn_core.model.probe import ProbeContext
from omn_core.model.target import Target
from omn_core.plugins import Registry

if TYPE_CHECKING:
    from omn_core.model.collector import BoundTarget


def bind_target(target: Target, registry: Registry, sysroot: str) -> BoundTarget:
    """Find a target with the binder of its kind.

    Raises what the binder refuses with, NotCollected where nothing installed finds the kind, RunFailed for anything
    else that the binder raises.
    """
    row = registry.targets.get(target.kind)
    if row is None:
        raise NotCollected(f"nothing installed here finds a target of kind {target.kind!r}", "install omn-kernel")
    try:
        bound: BoundTarget = registry.load(row.binder)(target, ProbeContext(target.kind, sysroot))
    except Refused:
        raise
    except PLUGIN_FAULTS as error:  # a guarded plugin call: nothing has run yet
        raise RunFailed(f"finding {target} failed: {row.binder} raised {type(error).__name__}: {error}") from error
    return bound

"""The contracts between the core and every plugin.

A plugin is one module, named by an entry point in the group `omn.plugins`, that defines any of these functions under
`@hookimpl` and states `OMN_CONTRACT = "1.0"`. Each hook is called once a session, in the order of the plugins' names,
inside a guard of its own: one that raises is reported by name and takes nothing from the others. Hooks hand things
over and must be cheap: no hook may import collector code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pluggy

from omn_core.model.rows import (
    CollectorRow,
    CommandRow,
    EmitRow,
    FormatRow,
    RequirementRow,
    StackRow,
    TargetRow,
    ViewRow,
)

CONTRACT = (1, 0)
"""Major and minor version of these contracts. Another major version is refused by name."""

GROUP = "omn.plugins"
"""The entry-point group that distributions declare their plugin module in."""

hookspec = pluggy.HookspecMarker("omn")
hookimpl = pluggy.HookimplMarker("omn")


@hookspec
def omn_catalog() -> str:
    """Return the package whose folder holds this plugin's catalog (`*.yaml` beside its code), by dotted name.

    Called when the catalog loads. The files are read and checked by the core; one that does not load is reported with
    file and line and takes only this plugin's sources with it.
    """
    raise AssertionError("a specification, never called")


@hookspec
def omn_collectors() -> Sequence[CollectorRow]:
    """Return a row for each (source, backend) pair this plugin can collect. Nothing is imported for it.

    Asked by the resolver and by the listing. A pair the catalog does not declare is the plugin's error.
    """
    raise AssertionError("a specification, never called")


@hookspec
def omn_requirements() -> Sequence[RequirementRow]:
    """Return a row for each requirement class this plugin answers.

    A requirement goes to the one plugin that declared its class. The probe is called as `probe(need, context)` with a
    `Need` and a `ProbeContext` and returns a `Probe`; its answers are kept for the session. One that raises reads as
    unknown, with the exception's text.
    """
    raise AssertionError("a specification, never called")


@hookspec
def omn_targets() -> Sequence[TargetRow]:
    """Return a row for each kind of target this plugin can find on the machine.

    The binder is called as `binder(target, context)` with a `Target` and a `ProbeContext`, before anything is
    prepared, and returns a `BoundTarget` or raises MachineRefused.
    """
    raise AssertionError("a specification, never called")


@hookspec
def omn_stacks() -> Sequence[StackRow]:
    """Return a row for each way to walk a stack that this plugin has, by its name in the catalog's `unwind.yaml`.

    The row's object is asked `find_misfit(target, context, mode)` with a `Target` and a `ProbeContext` where nobody
    forces a way: a clause on why another suits the target better, or None. One that raises does not suit.
    """
    raise AssertionError("a specification, never called")


@hookspec
def omn_emits() -> Sequence[EmitRow]:
    """Return a row for each emit: an object with `compute(series, spec)` and `render(answer, style)` (`Emit`)."""
    raise AssertionError("a specification, never called")


@hookspec
def omn_formats() -> Sequence[FormatRow]:
    """Return a row for each output format: an object with `write(document, stream, style)` (`Encoder`)."""
    raise AssertionError("a specification, never called")


@hookspec
def omn_views() -> Sequence[ViewRow]:
    """Return a row for each view of the terminal interface."""
    raise AssertionError("a specification, never called")


@hookspec
def omn_commands() -> Sequence[CommandRow]:
    """Return a row for each subcommand: a click command, imported when it is invoked or its help asked for."""
    raise AssertionError("a specification, never called")


@hookspec
def omn_run_event(event: Any) -> None:
    """Observe a run: called with a `RunEvent` when it is resolved, launched, attached, at each tick and when closed.

    Called on the measuring path, between rounds; an observer does little. One that raises is reported once and is not
    called again in that run.
    """

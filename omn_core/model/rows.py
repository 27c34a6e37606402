"""The rows that plugins hand over: each names an object by reference (`module:object`), imported when first used."""

from __future__ import annotations

from collections.abc import Mapping

import attrs


@attrs.frozen
class CollectorRow:
    """A collector this build has: the (source, backend) pair it serves and the factory that makes it.

    `several_processes` says it follows every process of `--pid a,b`; `weighs_samples` that each sampled event carries
    the period it stands for; `reads_stacks` that its events carry stacks, `walks` the ways that it can walk them, and
    `symbols` the words of `--symbols` that it can do, by default all of them.
    """

    source: str
    backend: str
    factory: str
    several_processes: bool = False
    weighs_samples: bool = False
    reads_stacks: bool = False
    walks: tuple[str, ...] = ("fp", "none")
    symbols: tuple[str, ...] = ("none", "local", "debuginfod")


@attrs.frozen
class RequirementRow:
    """A requirement class a plugin answers: `kind` as catalogs spell it, the probe, and the argument's form.

    `kind` ends in `>=` for a version class (`kernel>=5.8`); any other class is written alone or as `kind:argument`.
    `argument` is a regular expression that the whole argument must match, None for a class that takes none; `example`
    is quoted when it does not.
    """

    kind: str
    probe: str
    argument: str | None = None
    example: str | None = None


@attrs.frozen
class TargetRow:
    """A kind of target that a plugin binds to this machine, and the binder."""

    kind: str
    binder: str


@attrs.frozen
class EmitRow:
    """An emit: its name, its object, and what validation must know of it.

    `adds_up` says that it is an answer only where values add up; `takes_count` that `NAME:N` means something;
    `takes_attribute` whether `NAME@ATTRIBUTE` is `no`, `optional` or `required`; `lists_events` that it
    holds events one by one.
    """

    name: str
    reference: str
    meaning: str = ""
    adds_up: bool = False
    takes_count: bool = False
    takes_attribute: str = "no"
    lists_events: bool = False


@attrs.frozen
class FormatRow:
    """An output format: its name, its encoder, and the emits it can carry (empty: every one).

    `carries_documents` says it can hold a request, a session or a listing as well as a run; `tells_losses` that it says
    what was lost, which the command line otherwise says on standard error.
    """

    name: str
    reference: str
    meaning: str = ""
    emits: tuple[str, ...] = ()
    carries_documents: bool = False
    tells_losses: bool = True


@attrs.frozen
class ViewRow:
    """A view of the terminal interface."""

    name: str
    reference: str
    properties: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen
class CommandRow:
    """A subcommand: its name, the click command, and the line that `omn --help` prints."""

    name: str
    reference: str
    meaning: str = ""


@attrs.frozen
class StackRow:
    """A way to walk a stack, by its name in the catalog's `unwind.yaml`: `role` is `walk`.

    The object is asked `find_misfit(target, context, mode)`: why this is not the way that suits a target, in a clause,
    None where it is. A launched program's target names the file that is executed.
    """

    name: str
    reference: str
    role: str

"""What a reference pair is, as `catalog/references/<family>.yaml` spells it."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import Any

import attrs

NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")
REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class When(enum.Enum):
    """When the tool runs. omn's window is open around every one of them."""

    HELD = "held"
    """Once, while the workload waits at its step `until`: a state that both sides read."""
    AROUND = "around"
    """Before the workload's work and after it; the growth between is the tool's figure: a counter."""
    DURING = "during"
    """Once and to its end, while the workload runs (or, without one, the tool is the workload): a rate, a share."""
    SPANNING = "spanning"
    """From before the work to after it: a perf or a bpftrace, waited for until it says that it counts, interrupted."""
    WRAPPING = "wrapping"
    """It starts the workload, which follows its own arguments, and reports when that has ended."""


@attrs.frozen
class Tolerance:
    """How far two figures may stand apart: the larger of a share of the tool's and an absolute amount.

    `exact` stands alone and allows nothing; `log2_buckets` stands alone and compares powers of two. `side` says that
    omn can only be `above` or `below`, and `reason` why: nothing is allowed on the other side.
    """

    relative: float | None = None
    absolute: float | None = None
    exact: bool = False
    log2_buckets: int | None = None
    side: str | None = None
    reason: str | None = None

    def __attrs_post_init__(self) -> None:
        is_band = self.relative is not None or self.absolute is not None
        if [is_band, self.exact, self.log2_buckets is not None].count(True) != 1:
            raise ValueError("a tolerance is relative and absolute, or exact, or log2_buckets alone")
        if any(bound is not None and bound < 0 for bound in (self.relative, self.absolute, self.log2_buckets)):
            raise ValueError("a tolerance is no negative number")
        if self.side not in (None, "above", "below"):
            raise ValueError(f"a side is above or below, not {self.side!r}")
        if self.side is not None and (not is_band or self.reason is None):
            raise ValueError("a side belongs to a band, and its reason says why omn can only be there")


@attrs.frozen
class Step:
    """A workload by its name, its arguments, and the steps between which its work lies."""

    name: str
    arguments: dict[str, Any] = attrs.field(factory=dict)
    begin: str = "ready"
    until: str | None = None


@attrs.frozen
class Stage:
    """What the workload stands on: made for the pair, gone after it."""

    name: str
    arguments: dict[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class Asked:
    """What omn is asked, as a session's request spells it, the target's value apart."""

    target: str
    mode: str
    emit: str
    value: str | None = None
    keys: tuple[str, ...] = ()
    filter: str | None = None
    interval: str | None = None
    backend: str | None = None


@attrs.frozen
class Read:
    """Which figure of omn's answer is compared: a field of the emit in the one series of this key, or a parser's."""

    field: str | None = None
    key: dict[str, Any] = attrs.field(factory=dict)
    parser: str | None = None
    figure: str | None = None

    def __attrs_post_init__(self) -> None:
        if (self.field is None) == (self.parser is None) or (self.parser is None) != (self.figure is None):
            raise ValueError("omn's figure is a field of its answer, or a figure of a parser")
        _check_reference(self.parser)


@attrs.frozen
class Tool:
    """The other side: what it is called in a verdict, how it is run, and which figure is read from what it prints."""

    title: str
    package: str
    command: tuple[str, ...]
    when: When
    parser: str
    figure: str
    environment: dict[str, str] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        if not self.command:
            raise ValueError("a command is a list of words, the program first")
        _check_reference(self.parser)


@attrs.frozen
class Pair:
    """One comparison. `use` says what a person runs the tool for, `why` what is not obvious about comparing so."""

    id: str
    source: str
    use: str
    unit: str
    asked: Asked
    omn: Read
    tool: Tool
    tolerance: Tolerance
    workload: Step | None = None
    stage: Stage | None = None
    requires: tuple[str, ...] = ()
    runs: int = 1
    sample: bool = False
    why: str | None = None
    known_defect: str | None = None

    def __attrs_post_init__(self) -> None:
        if not NAME.fullmatch(self.id):
            raise ValueError(f"an id is small letters, digits, dots and dashes, not {self.id!r}")
        if self.runs < 1 or self.runs % 2 == 0:
            raise ValueError("runs is an odd number: the verdict is on the medians")
        if self.workload is None and self.tool.when in (When.WRAPPING, When.SPANNING):
            raise ValueError(f"a tool that is {self.tool.when.value} needs a workload")
        if self.asked.target in ("pid", "tid") and self.workload is None:
            raise ValueError(f"target {self.asked.target} is the workload's process, and there is no workload")
        between = (When.AROUND, When.SPANNING, When.WRAPPING, When.HELD)
        if self.workload is not None and (self.workload.until is not None) is not (self.tool.when in between):
            raise ValueError(f"a workload's 'until' is for a tool that is {', '.join(one.value for one in between)}")

    @property
    def family(self) -> str:
        """The family whose source it holds."""
        return self.source.partition(".")[0]

    @property
    def subject(self) -> str:
        """The two sides in a few words."""
        return f"{self.source} vs {self.tool.title}"


def _check_reference(text: str | None) -> None:
    if text is not None and not REFERENCE.fullmatch(text):
        raise ValueError(f"a parser is written module:function, not {text!r}")


def fill(text: str, words: Mapping[str, str]) -> str:
    """Put words in place of their names in braces. Raises KeyError for a name that there is no word for."""
    return re.sub(r"\{(\w+)\}", lambda match: words[match[1]], text)

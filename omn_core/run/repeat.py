"""A session run several times: the program launched anew for each run, every run's document kept, and their spread."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import Any

import attrs

from omn_core.emit.spread import compute_repeat, say_runs
from omn_core.errors import Refused, RunFailed
from omn_core.model.resolved import ResolvedSession
from omn_core.model.result import Document
from omn_core.plugins import Registry
from omn_core.run.interrupts import Aborted, Interrupts
from omn_core.run.runner import RunOptions, carry_out


@attrs.frozen(eq=False)
class Repeated:
    """What came of a repeated session. `failure` is why a later run could not be finished, None where nothing failed.

    It is for the caller to write the document first and to fail then.
    """

    document: Document
    failure: Refused | RunFailed | None = None


@attrs.define(eq=False)
class _Runs:
    resolved: ResolvedSession
    times: int
    finished: list[Document] = attrs.field(factory=list)
    notes: list[str] = attrs.field(factory=list)
    failure: Refused | RunFailed | None = None

    def carry_out_all(self, registry: Registry, options: RunOptions, interrupts: Interrupts) -> None:
        """Run until all is done, a signal came, or a run failed. Raises what the first run raises."""
        for number in range(1, self.times + 1):
            try:
                document = carry_out(number_outputs(self.resolved, number), registry, options, interrupts)
            except (Refused, RunFailed) as error:
                if not self.finished:
                    raise
                self._stop_short(number, error, interrupts)
                return
            self.finished.append(attrs.evolve(document, session=self.resolved))
            if interrupts.first is not None or any(result.failure is not None for result in document.results):
                self._say_end(number, document, interrupts.first)
                return
            options = attrs.evolve(options, started_cpu_ns=None)

    def _stop_short(self, number: int, error: Refused | RunFailed, interrupts: Interrupts) -> None:
        if interrupts.aborted is not None and interrupts.first is None:
            self.notes.append(
                f"{interrupts.aborted} came before run {number} of {self.times} had begun, and none was made after it"
            )
            return
        self.failure = error
        self.notes.append(f"run {number} of {self.times} could not be finished, and none was made after it")

    def _say_end(self, number: int, document: Document, signal_name: str | None) -> None:
        if signal_name is None:
            self.notes.append(f"run {number} of {self.times} failed, and none was made after it")
        elif document.ended_by == signal_name:
            self.notes.append(f"{signal_name} cut run {number} of {self.times} short: no spread counts it")
        elif number < self.times:
            self.notes.append(f"{signal_name} came after run {number} of {self.times}, and none was made after it")


def run_repeatedly(
    resolved: ResolvedSession, registry: Registry, times: int, options: RunOptions | None = None
) -> Repeated:
    """Carry out a resolved session several times, one run after another, and return their documents as one.

    The first signal ends the run that it finds, in good order, and no other begins; what was finished is kept. A run
    that a signal cut short and a result that failed are in `repeats` and in no spread. Raises as `run` does where the
    first run does not finish.
    """
    runs = _Runs(resolved, times)
    with Interrupts() as interrupts:
        try:
            runs.carry_out_all(registry, options or RunOptions(), interrupts)
        except Aborted as aborted:  # between two runs, a second signal
            if not runs.finished:
                raise RunFailed(f"{aborted.name} came and aborted the run") from None
            runs.notes.append(f"{aborted.name} came after run {len(runs.finished)} of {times}")
    return Repeated(_combine(runs), runs.failure)


def number_outputs(resolved: ResolvedSession, number: int) -> ResolvedSession:
    """Return the session of one run: the program's output goes to `FILE.<number>`.

    A FILE that is something else than a regular file, such as /dev/null or a fifo, serves every run as it is.
    """
    session = resolved.session
    named = {name: getattr(session, name) for name in ("program_stdout", "program_stderr")}
    numbered: dict[str, Any] = {
        name: f"{path}.{number}" for name, path in named.items() if path is not None and not _is_special(path)
    }
    return attrs.evolve(resolved, session=attrs.evolve(session, **numbered))


def _is_special(path: str) -> bool:
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def _combine(runs: _Runs) -> Document:
    """Return the last whole run's document with every result's spread, and every run in `repeats`."""
    finished = runs.finished
    whole = [(place, one) for place, one in enumerate(finished, 1) if not _is_cut(one)]
    last = whole[-1][1] if whole else finished[-1]
    results = tuple(
        attrs.evolve(result, repeat=compute_repeat([(place, one.results[index]) for place, one in whole]))
        for index, result in enumerate(last.results)
    )
    notes = (*last.notes, *runs.notes, *_say_exits(finished))
    return attrs.evolve(last, results=results, repeats=tuple(finished), notes=notes)


def _is_cut(document: Document) -> bool:
    return (document.ended_by or "").startswith("SIG")


def _say_exits(documents: Sequence[Document]) -> list[str]:
    """Say where the program did not end alike in every run: the spread is then over runs of different things."""
    exits: dict[str, list[int]] = {}
    for number, document in enumerate(documents, 1):
        if document.program is not None and not _is_cut(document):
            found = document.program.exit
            words = "an unknown status" if found is None else " ".join(map(str, next(iter(found.items()))))
            exits.setdefault(words, []).append(number)
    if len(exits) < 2:
        return []
    each = "; ".join(f"{words} in {say_runs(numbers)}" for words, numbers in exits.items())
    return [f"the program did not end alike in every run: {each}"]

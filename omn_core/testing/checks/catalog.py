"""What a plugin's catalog promises, against what the plugin hands over."""

from __future__ import annotations

import re
from collections.abc import Iterator

from omn_core.model.probe import Need, Probe, ProbeContext, State
from omn_core.model.rows import RequirementRow
from omn_core.testing.checks.guard import call_guarded
from omn_core.testing.checks.rows import load
from omn_core.testing.checks.subject import Subject, get_identity


def check_catalog(subject: Subject) -> Iterator[str]:
    """Each backend is collected by a row or says why none does, never both; no row stands without a backend."""
    rows = {(row.source, row.backend): row for row in subject.record.rows.get("collectors", [])}
    for entry in subject.entries:
        for backend in entry.chain:
            is_collected = (entry.id, backend.id) in subject.registry.collectors
            if is_collected and backend.uncollected is not None:
                yield f"{entry.id}/{backend.id} is collected, and its catalog says it is not: {backend.uncollected}"
            if not is_collected and backend.uncollected is None:
                yield f"{entry.id}/{backend.id} has no collector, and its catalog does not say why (uncollected)"
    for source, backend_id in rows:
        found = subject.catalog.entries.get(source)
        if found is None or found.backend(backend_id) is None:
            yield f"{source}/{backend_id} has a collector, and no catalog declares it"


def check_titles(subject: Subject) -> Iterator[str]:
    """A title is a phrase that starts with a capital letter and has no final stop, as lists and pages show it."""
    for entry in subject.entries:
        title = entry.title
        if not title[:1].isupper() or title.endswith("."):
            yield f"the title of {entry.id} starts with a capital letter and has no final stop, not {title!r}"


def check_requirements(subject: Subject) -> Iterator[str]:
    """Every class that the catalog uses is answered by some plugin; this one's probes answer, and say why not."""
    rows: list[RequirementRow] = subject.record.rows.get("requirements", [])
    used = {need.text: need for entry in subject.entries for backend in entry.chain for need in backend.requires}
    for need in used.values():
        if need.kind not in subject.registry.requirements:
            yield f"no installed plugin answers the requirement {need.text!r}"
    for row in rows:
        example, problem = _read_example(row)
        if problem is not None:
            yield problem
        own = [need for need in used.values() if need.kind == row.kind]
        for need in [*([example] if example is not None else []), *own]:
            yield from _check_probe(subject, row, need)


def _read_example(row: RequirementRow) -> tuple[Need | None, str | None]:
    """Return the need that a row's example spells, and what is wrong with the example if anything is."""
    if row.argument is None:
        return Need(row.kind, row.kind), None
    if row.example is None:
        return None, f"the requirement class {row.kind!r} takes an argument and gives no example of one"
    separator = "" if row.kind.endswith(">=") else ":"
    argument = row.example.removeprefix(row.kind + separator)
    if not row.example.startswith(row.kind) or not re.fullmatch(row.argument, argument):
        return None, f"the requirement class {row.kind!r} gives {row.example!r}, which is not of its own form"
    return Need(row.example, row.kind, argument), None


def _check_probe(subject: Subject, row: RequirementRow, need: Need) -> Iterator[str]:
    probe, problem = load(subject, row.probe)
    if problem is not None or not callable(probe):
        return  # a reference's own check names it
    for target in (None, "launch", "system"):
        answer, problem = call_guarded(probe, need, ProbeContext(target))
        if problem is not None:
            yield f"{get_identity(row)}: the probe of {need.text!r} raised {problem}"
            return
        if not isinstance(answer, Probe):
            yield f"{get_identity(row)}: the probe of {need.text!r} returned {answer!r}, not a Probe"
            return
        if answer.state is not State.AVAILABLE and not answer.reason:
            yield f"{get_identity(row)}: the probe of {need.text!r} answered {answer.state.value} and gave no reason"
            return


def check_readme(subject: Subject) -> Iterator[str]:
    """The distribution's long description has a heading that names each source."""
    if not subject.entries:
        return
    text = "" if subject.installed is None else str(subject.installed.metadata.get_payload() or "")  # type: ignore[attr-defined]
    headings = [line for line in text.splitlines() if line.startswith("#")]
    if not headings:
        yield "its metadata holds no README (pyproject.toml: readme)"
        return
    for entry in subject.entries:
        if not any(re.search(rf"(?<![\w.]){re.escape(entry.id)}(?![\w.])", line) for line in headings):
            yield f"its README has no section for {entry.id}"

"""What stands beside the numbers as text: losses, degradations, caveats; and at the end the program and the cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from omn_core.format import sentences
from omn_core.format.page import Page
from omn_core.format.plain import collect_degraded
from omn_core.format.spread import render_program_spread
from omn_core.model.result import Document, Result
from omn_core.model.style import TextStyle
from omn_core.names import render_printable


def add_account(page: Page, document: Document, index: int) -> None:
    """Add what was lost and what is degraded, then what else a reader of the numbers should know.

    Of several requests each says only what is its own: the rest is in the footer.
    """
    result = document.results[index]
    is_alone = len(document.results) == 1
    lost = _find_lost(document, index)
    if lost or is_alone:
        nothing = "nothing" if result.repeat is None else "nothing, in any run"
        page.add_labelled("lost", lost or nothing, "alarm" if lost and _is_alarming(result) else None)
    degraded = _find_degraded(document, index)
    for sentence in degraded or (["nothing"] if is_alone else []):
        page.add_labelled("degraded", render_printable(sentence), "alarm" if degraded else None)
    shared = _find_shared_caveats(document)
    for caveat in _find_caveats(document, result):
        if caveat not in shared:
            page.add_labelled("caveat", render_printable(caveat), "faint")
    for fact in result.facts:
        page.add_labelled("note", render_printable(fact))
    if result.fields:
        fields = ", ".join(f"{render_printable(name)} {value}" for name, value in result.fields.items())
        page.add_labelled("fields", fields)
    if result.stopped_because is not None:
        page.add_labelled("stopped", render_printable(result.stopped_because))
    if result.failure is not None:
        page.add_labelled("failed", render_printable(result.failure), "alarm")


def render_footer(document: Document, style: TextStyle) -> str:
    """Return what is said once: what no request lost, the program, notes about the whole run, and the cost."""
    page = Page(style)
    if len(document.results) > 1:
        _add_summed_up(page, document, "lost", _find_lost)
        _add_summed_up(page, document, "degraded", _find_degraded)
        for caveat in _find_shared_caveats(document):
            page.add_labelled("caveat", render_printable(caveat), "faint")
    if document.session.session.composition is not None:
        _add_pointer(page, document)
    last = "last run: " if document.repeats else ""
    if document.program is not None:
        page.add_labelled("program", last + sentences.render_program(document.program))
    for clause in render_program_spread(document):
        page.add_labelled("", clause)
    if document.adopted:
        page.add_labelled("adopted", sentences.render_adopted(document.adopted))
    for note in document.notes:
        page.add_labelled("note", render_printable(note))
    blocks = [name for name, block in document.extras.items() if block and name != "budget"]
    if blocks:
        page.add_labelled("also", f"{', '.join(blocks)}, in every format but this one")
    budget = document.extras.get("budget")
    held = [] if budget is None else [sentences.render_budget(budget)]
    page.add_labelled("cost", last + "; ".join([*sentences.render_cost(document.cost), *held]))
    return page.render()


def _add_summed_up(page: Page, document: Document, label: str, find: Callable[[Document, int], object]) -> None:
    """Add which of several requests lost something or are degraded, or that none of them is."""
    names = [
        result.resolved.request.id or result.resolved.entry.id
        for index, result in enumerate(document.results)
        if find(document, index)
    ]
    count = len(document.results)
    text = f"nothing, in any of {count} requests"
    if names:
        text = f"{', '.join(dict.fromkeys(names))}: {len(names)} of {count} requests, said with each"
    page.add_labelled(label, render_printable(text), "alarm" if names else None)


def _find_lost(document: Document, index: int) -> str:
    result = document.results[index]
    if result.repeat is None:
        return "; ".join(sentences.render_losses(result.losses))
    return "; ".join(map(render_printable, result.repeat.notes))


def _is_alarming(result: Result) -> bool:
    return result.losses.is_lower_bound if result.repeat is None else bool(result.repeat.notes)


def _find_degraded(document: Document, index: int) -> list[str]:
    runs = [run.results[index] for run in document.repeats] or [document.results[index]]
    return list(dict.fromkeys(sentence for run in runs for sentence in collect_degraded(run)))


def _find_caveats(document: Document, result: Result) -> Sequence[str]:
    """Return the caveats that stand with a result: what a family's name composed leaves the catalog's to its help."""
    if document.session.session.composition is None:
        return result.caveats
    told = _list_catalogs(result)
    return [caveat for caveat in result.caveats if caveat not in told]


def _list_catalogs(result: Result) -> Sequence[str]:
    return result.resolved.entry.caveats_of(result.resolved.target.kind)


def _find_shared_caveats(document: Document) -> Sequence[str]:
    """Return the caveats of every one of several requests."""
    if len(document.results) < 2:
        return ()
    first, *others = (_find_caveats(document, result) for result in document.results)
    return [caveat for caveat in first if all(caveat in other for other in others)]


def _add_pointer(page: Page, document: Document) -> None:
    """Say where the caveats of a composed answer's sources are: a person asked a family, and gets its numbers first."""
    told = {result.resolved.entry.id: len(_list_catalogs(result)) for result in document.results}
    places = ", ".join(f"omn help {source}" for source, count in told.items() if count)
    if places:
        page.add_labelled("caveat", f"what these figures hold and leave out: {places}", "faint")

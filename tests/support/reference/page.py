"""The manual's pages of the pairs, made of them and of the last recorded verdicts: `python -m reference.page`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from reference.load import Family, load_families
from reference.model import Pair
from reference.record import RECORD, read_record
from reference.verdict import render_figure, render_tolerance

PAGES = RECORD.parent
Record = Mapping[str, Mapping[str, Any]]


def render_pages(families: Sequence[Family], record: Record) -> dict[str, str]:
    """Return each page's text by its file name: the families', and the one that lists them."""
    pages = {f"{family.name}.md": "\n".join([*_iter_family(family, record), ""]) for family in families}
    return {"index.md": "\n".join([*_iter_index(families, record), ""]), **pages}


def write_pages(folder: Path = PAGES) -> None:
    """Write every page."""
    for name, text in render_pages(load_families(), read_record()).items():
        (folder / name).write_text(text)


def _iter_index(families: Sequence[Family], record: Record) -> Iterator[str]:
    yield "# What omn stands in for"
    yield ""
    yield "Each figure below was held against that of a tool people ask for it now, on one workload in one window."
    yield "The pages are made of the [reference pairs](../reference-pairs.md) and of the last recorded run of them;"
    yield "`tox -e reference` runs them on the machine you are on."
    yield ""
    yield "```{toctree}"
    yield from (family.name for family in families)
    yield "```"
    yield ""
    states = ("PASS", "KNOWN", "SKIP", "FAIL", "not run")
    rows = []
    for family in families:
        said = [record.get(pair.id, {}).get("state", "not run") for pair in family.pairs]
        tools = ", ".join(sorted({pair.tool.package for pair in family.pairs}))
        counts = ", ".join(f"{said.count(state)} {state}" for state in states if state in said)
        rows.append((f"[{family.name}]({family.name}.md)", str(len(family.pairs)), tools, counts))
    yield from _table(("family", "pairs", "tools of", "verdicts"), rows)


def _iter_family(family: Family, record: Record) -> Iterator[str]:
    yield f"# Tools beside `{family.name}`"
    yield ""
    yield f"Made of `catalog/references/{family.path.name}` and the last recorded run."
    yield ""
    rows = [_make_row(pair, record.get(pair.id)) for pair in family.pairs]
    yield from _table(("run for", "tool", "omn", "figures, omn / tool", "allowed", "verdict"), rows)
    for pair in family.pairs:
        notes = [pair.why, pair.tolerance.reason, pair.known_defect and f"known defect: {pair.known_defect}"]
        if any(notes):
            yield ""
            yield f"**`{pair.id}`**: {'; '.join(note for note in notes if note)}."
    if family.without:
        yield ""
        yield "## Held to nothing"
        yield ""
        yield from _table(
            ("run for", "tool", "why"), [(one.use, f"`{one.title}`", one.reason) for one in family.without]
        )


def _make_row(pair: Pair, said: Mapping[str, Any] | None) -> tuple[str, ...]:
    tolerance = render_tolerance(pair.tolerance, pair.unit)
    head = (pair.use, f"`{pair.tool.title}`", f"`{_ask(pair)}`")
    if said is None:
        return (*head, "", tolerance, "not run")
    figures = ""
    if said["omn"] is not None and said["tool"] is not None:
        figures = f"{render_figure(said['omn'], pair.unit)} / {render_figure(said['tool'], pair.unit)}"
    tool = f"{pair.tool.package} {said['version'] or ''}".strip()
    why = f": {said['reason']}" if said["reason"] else ""
    return (*head, figures, tolerance, f"{said['state']}{why} ({tool}, Linux {said['kernel']})")


def _ask(pair: Pair) -> str:
    """Write the request as one would on the command line, the target by its kind."""
    asked = pair.asked
    parts = [f"omn {pair.source} -m {asked.mode} -e {asked.emit}"]
    parts += [f"--value {asked.value}"] if asked.value else []
    parts += [f"--keys {','.join(asked.keys)}"] if asked.keys else []
    parts.append(f"--{asked.target}" + ("" if asked.target == "system" else f" {asked.target.upper()}"))
    return " ".join(parts)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield _row(head)
    yield _row(["---"] * len(head))
    yield from (_row(row) for row in rows)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    write_pages()

"""The ways to walk a stack: the table's rules, and which way a request gets on a machine that has some of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from omn_core.catalog.load import load_catalog
from omn_core.errors import CatalogError, MachineRefused, NotCollected, RequestError
from omn_core.model.request import Request, Session, parse_emit
from omn_core.model.resolved import ResolvedRequest
from omn_core.model.target import parse_target
from omn_core.plugins import Registry
from omn_core.resolve.probes import ProbeTable
from omn_core.resolve.session import resolve_session, validate_session

PLUGIN = """
from omn_core.api import AVAILABLE, CollectorRow, Probe, RequirementRow, StackRow, State, hookimpl

OMN_CONTRACT = "1.0"
WALKS = ("far", "near", "odd", "none")


@hookimpl
def omn_catalog():
    return "omn_lab"


@hookimpl
def omn_requirements():
    return [RequirementRow("lab", "omn_lab.plugin:probe", r"[a-z]+", "lab:available")]


@hookimpl
def omn_collectors():
    return [
        CollectorRow("lab.depth", "first", "omn_lab.plugin:nothing", reads_stacks=True, walks=WALKS),
        CollectorRow("lab.other", "first", "omn_lab.plugin:nothing", reads_stacks=True, walks=("near", "none")),
        CollectorRow("lab.bare", "first", "omn_lab.plugin:nothing"),
    ]


@hookimpl
def omn_stacks():
    named = {"far": "FAR", "near": "ANY", "none": "ANY", "odd": "ODD"}
    return [StackRow(name, f"omn_lab.plugin:{what}", "walk") for name, what in named.items()]


class Walk:
    def __init__(self, answer):
        self.answer = answer

    def find_misfit(self, target, context, mode):
        if self.answer == "raise":
            raise RuntimeError("it fell over")
        return self.answer and self.answer.format(target=target)


ANY, FAR, ODD = Walk(None), Walk("it is too far from {target}"), Walk("raise")


def probe(need, context):
    state = State(need.argument)
    return AVAILABLE if state is State.AVAILABLE else Probe(state, f"it is {state.value}", f"mend {state.value}")
"""

TABLE = """\
- id: stack.unwind
  title: how
  chain:
    - {id: best, requires: ['lab:missing'], copies: nothing, cost: low}
    - {id: far, requires: ['lab:available'], copies: much, cost: med, degrades: 'it is far'}
    - {id: near, requires: ['lab:available'], copies: little, cost: low, degrades: 'it is near'}
    - {id: unwritten, requires: ['lab:available'], copies: little, cost: low, degrades: 'less', uncollected: 'no time'}
    - {id: none, requires: ['lab:available'], copies: nothing, cost: free, degrades: 'none at all'}
"""


class Ground:
    """The laboratory with a folder as its catalog, its table of walks the one given."""

    def __init__(self, laboratory: Any, folder: Path, entry_text: Any) -> None:
        self.folder = folder
        laboratory.install("lab", PLUGIN, catalog__yaml=entry_text())
        self.registry: Registry = laboratory.discover(("omn", "omn-lab"))
        folder.mkdir()
        sampled = {
            "modes": "[sample]",
            "emits": "{sample: [stack, raw, topk]}",
            "stacks": "the program's",
            "keys": "[task, cpu]",
        }
        texts = [entry_text({**sampled, "id": f"lab.{name}"}) for name in ("depth", "other", "bare")]
        (folder / "lab.yaml").write_text("".join(texts))

    def resolve(
        self, table: str = TABLE, source: str = "lab.depth", emits: str = "stack", **asked: Any
    ) -> ResolvedRequest:
        """Resolve one request on a process."""
        (self.folder / "unwind.yaml").write_text(table)
        catalog = load_catalog(self.registry, self.folder)
        target = asked.pop("target", {"pid": 1})
        request = Request(source, "sample", (parse_emit(emits),), (), parse_target(target), **asked)
        valid = validate_session(Session((request,), duration_ns=1), catalog, self.registry)
        return resolve_session(valid, self.registry, ProbeTable(self.registry), {}).requests[0]


@pytest.fixture
def ground(laboratory: Any, tmp_path: Path, entry_text: Any) -> Ground:
    """A family whose events carry stacks."""
    return Ground(laboratory, tmp_path / "folder", entry_text)


@pytest.mark.spec("STK-1")
def test_the_first_way_that_is_there_and_suits_the_target_is_taken_and_says_what_was_passed_over(
    ground: Ground,
) -> None:
    """What the machine lacks and what does not suit stand in the chain with their reasons; the rest is not asked."""
    walk = ground.resolve().walk
    assert walk is not None
    assert (walk.walk, walk.asked, walk.degrades) == ("near", "auto", "it is near")
    assert walk.to_plain()["chain"] == [
        {"walk": "best", "state": "missing", "reason": "lab:missing: it is missing"},
        {"walk": "far", "state": "target", "reason": "it is too far from --pid 1"},
        {"walk": "near", "state": "selected", "reason": None},
    ]


@pytest.mark.spec("STK-1")
def test_a_way_that_is_unknown_or_whose_answer_cannot_be_had_is_never_chosen(ground: Ground) -> None:
    """Unknown never counts, and a walk that falls over when it is asked does not suit."""
    table = TABLE.replace("far, requires: ['lab:available']", "far, requires: ['lab:unknown']")
    table = table.replace("best, requires: ['lab:missing']", "odd, requires: ['lab:available']")
    walk = ground.resolve(table).walk
    assert walk is not None
    assert [link.state.value for link in walk.chain] == ["target", "unknown", "selected"]
    assert walk.chain[0].reason == "asking whether it suits the target raised RuntimeError: it fell over"


@pytest.mark.spec("STK-1")
def test_a_forced_way_is_taken_whatever_it_suits_and_refused_by_whose_gap_it_is(ground: Ground) -> None:
    """What the machine lacks is the machine's; what it has and nobody wrote, for anything or for this source, is the
    build's; a word that no table lists is the request's."""
    walk = ground.resolve(stack="far").walk
    assert walk is not None
    assert (walk.walk, walk.asked, [link.backend for link in walk.chain]) == ("far", "far", ["far"])
    with pytest.raises(MachineRefused, match=r"\(best: lab:missing: it is missing\)") as refused:
        ground.resolve(stack="best")
    assert refused.value.remedy == "mend missing"
    with pytest.raises(NotCollected, match=r"\(unwritten: no time\)"):
        ground.resolve(stack="unwritten")
    with pytest.raises(NotCollected, match=r"\(far: lab.other through first walks by near, none\)"):
        ground.resolve(source="lab.other", stack="far")
    with pytest.raises(RequestError, match="no way to walk stacks is called 'fra'") as wrong:
        ground.resolve(stack="fra")
    assert "did you mean 'far'?" in str(wrong.value.remedy)
    with pytest.raises(NotCollected, match="carry no stacks to walk"):
        ground.resolve(source="lab.bare", stack="near")


@pytest.mark.spec("STK-1")
def test_no_stack_is_walked_that_nobody_sees(ground: Ground) -> None:
    """Without an emit that shows stacks nothing is copied; to ask for both, stacks and none of them, is wrong."""
    walk = ground.resolve(emits="topk@comm").walk
    assert walk is not None
    assert (walk.walk, walk.chain[0].reason, walk.degrades) == ("none", "nothing that was asked shows stacks", None)
    raw = ground.resolve(emits="raw", stack="none").walk
    assert raw is not None
    assert (raw.walk, raw.degrades) == ("none", None)
    assert ground.resolve(source="lab.bare").walk is None
    with pytest.raises(RequestError, match="'stack' is read from stacks, and --stack none walks none"):
        ground.resolve(stack="none")
    alone = "".join(line for line in TABLE.splitlines(keepends=True) if "id: far" not in line and "near" not in line)
    with pytest.raises(MachineRefused, match="best: lab:missing: it is missing; unwritten: no time"):
        ground.resolve(alone)


BROKEN = [
    (("id: stack.unwind", "id: stack.walk"), None, "the table is one item, and its id is stack.unwind"),
    (("cost: med", "cost: some"), 5, "cost band 'some' is unknown"),
    (("id: near", "id: far"), 6, "the walk 'far' is in the chain twice"),
    (("id: near", "id: auto"), 6, "'auto' is no name of a walk"),
    ((", degrades: 'it is near'", ""), 6, "near: after the first, a backend says what it degrades"),
    (("cost: low}", "cost: low, degrades: 'x'}"), 4, "best: the first of a chain is what the others are compared with"),
    (("['lab:missing']", "[]"), 4, "best: it requires nothing"),
    (("lab:missing", "lob:missing"), 4, "no installed plugin reads the requirement 'lob:missing'"),
    (("copies: much", "copys: much"), 5, "there is no field 'copys' here"),
    (("id: none", "id: nothing"), 3, "the last walk of a chain is 'none', which every machine has"),
]


@pytest.mark.spec("CAT-7")
@pytest.mark.parametrize(("change", "line", "reason"), BROKEN, ids=[reason[:30] for _, _, reason in BROKEN])
def test_a_table_that_breaks_a_rule_of_chains_is_refused_with_its_line(
    change: tuple[str, str], line: int | None, reason: str, ground: Ground
) -> None:
    """A folder's own table is read with the folder, and held to what every chain is held to."""
    with pytest.raises(CatalogError) as caught:
        ground.resolve(TABLE.replace(*change))
    assert reason in caught.value.reason
    assert caught.value.path == str(ground.folder / "unwind.yaml")
    if line is not None:
        assert caught.value.line == line


@pytest.mark.spec("CAT-7")
def test_the_shared_table_keeps_the_rules_wherever_its_requirements_are_answered(laboratory: Any) -> None:
    """It is read without the plugin that answers them too, and read back equal from the cache."""
    walks = load_catalog(laboratory.discover()).list_walks()
    assert [walk.id for walk in walks] == ["sframe", "fp+leaf", "dwarf", "lbr", "fp", "none"]
    assert load_catalog(laboratory.discover()).list_walks() == walks
    registry = laboratory.discover()
    registry.requirements.clear()
    alone = load_catalog(registry).list_walks()
    assert [[need.text for need in walk.requires] for walk in alone] == [
        [need.text for need in walk.requires] for walk in walks
    ]

"""Completion, validation and the walk down a chain, over a family whose probes answer as their argument says."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from omn_core.errors import MachineRefused, NotCollected, Refused, RequestError, Whose
from omn_core.model.request import Request, RequestWindow, Session, parse_emit
from omn_core.model.resolved import ResolvedRequest
from omn_core.model.target import parse_target
from omn_core.resolve.listing import list_sources
from omn_core.resolve.probes import ProbeTable
from omn_core.resolve.session import resolve_session, validate_session


class Ground:
    """A laboratory family on a chain of named backends, and the questions put to it."""

    def __init__(self, laboratory: Any, entry_text: Any) -> None:
        self.laboratory = laboratory
        self.entry_text = entry_text

    def build(
        self, *backends: str, changes: dict[str, str] | None = None, collected: tuple[str, ...] | None = None
    ) -> None:
        """Install the family: each backend `id state[,state] [field: value; ...]`, collected all or as named."""
        links = []
        for index, text in enumerate(backends):
            identifier, states, *rest = text.split(" ", 2)
            requires = ", ".join(f"'lab:{state}'" for state in states.split(","))
            fields = rest[0] if rest else ("" if index == 0 else "degrades: 'it knows less'")
            if index and rest and "degrades" not in fields and "equivalent" not in fields:
                fields += ", degrades: 'it knows less'"
            links.append(f"{{id: {identifier}, requires: [{requires}], cost: low{', ' if fields else ''}{fields}}}")
        names = [text.split(" ")[0] for text in backends] if collected is None else collected
        text = self.entry_text(changes, "\n".join(links))
        self.laboratory.install_lab(text, [("lab.depth", name) for name in names])
        self.registry, self.catalog = self.laboratory.load()
        assert "lab.depth" in self.catalog.entries, [r.reason for r in self.registry.records]

    def session(self, **fields: Any) -> Session:
        """A session of one request, from the command line's words."""
        whole = {name: fields.pop(name) for name in ("duration_ns", "launch", "extras") if name in fields}
        return Session((make_request(**fields),), **{"duration_ns": 1_000_000_000, **whole})

    def resolve(self, **fields: Any) -> ResolvedRequest:
        """Resolve one request on a process."""
        return self.resolve_all(self.session(**fields))[0]

    def resolve_all(self, session: Session) -> tuple[ResolvedRequest, ...]:
        """Resolve a session."""
        valid = validate_session(session, self.catalog, self.registry)
        return resolve_session(valid, self.registry, ProbeTable(self.registry), {}).requests


def make_request(source: str = "lab.depth", **fields: Any) -> Request:
    """Return a poll of a process for its summary, with changes."""
    given = {"mode": "poll", "emits": ["summary"], "target": {"pid": 1}, **fields}
    return Request(
        source,
        given["mode"],
        tuple(parse_emit(text) for text in given["emits"]),
        tuple(given.get("keys", ())),
        None if given["target"] is None else parse_target(given["target"]),
        **{
            name: given[name]
            for name in ("filter", "value", "interval_ns", "backend", "stack", "hz", "id", "window")
            if name in given
        },
    )


@pytest.fixture
def ground(laboratory: Any, entry_text: Any) -> Ground:
    """A family to be built."""
    return Ground(laboratory, entry_text)


def states(resolved: ResolvedRequest) -> dict[str, str]:
    """Return the chain as walked: backend to state."""
    return {link.backend: link.state.value for link in resolved.chain}


@pytest.mark.spec("RES-1")
def test_the_first_available_and_collected_backend_serves(ground: Ground) -> None:
    """Each backend passed over keeps the first thing that stood in its way; those after the chosen are not asked."""
    ground.build(
        "a missing",
        "b restricted",
        "c available",
        "d available modes: [count]",
        "e available emits: [raw, count]",
        "f available targets: [system]",
        "g unknown",
        "h available",
        "i raising",
        collected=("a", "b", "d", "e", "f", "g", "h", "i"),
    )
    resolved = ground.resolve()
    assert resolved.backend.id == "h"
    assert states(resolved) == {
        "a": "missing",
        "b": "restricted",
        "c": "uncollected",
        "d": "mode",
        "e": "emits",
        "f": "target",
        "g": "unknown",
        "h": "selected",
    }
    assert resolved.chain[0].reason == "lab:missing: it is missing"
    assert resolved.chain[0].remedy == "mend missing"
    assert resolved.degraded == ("it knows less",)
    assert resolved.unverified == ()
    assert not resolved.pinned


@pytest.mark.spec("RES-1", "PRB-1")
def test_an_unknown_backend_serves_only_where_none_is_available_and_is_said(ground: Ground) -> None:
    """What could not be checked is used when nothing better is there, and named as unverified; missing never is."""
    ground.build("a missing,unknown", "b available,unknown", "c unknown")
    resolved = ground.resolve()
    assert resolved.backend.id == "b"
    assert resolved.unverified == ("lab:unknown: it is unknown",)
    assert states(resolved) == {"a": "missing", "b": "selected", "c": "unknown"}


@pytest.mark.spec("PRB-1")
def test_a_probe_that_raises_reads_as_unknown(ground: Ground) -> None:
    """A probe's exception is its reason, never an answer."""
    ground.build("a raising")
    assert ground.resolve().unverified == ("lab:raising: its probe raised RuntimeError: the probe fell over",)


@pytest.mark.spec("PRB-1", "RES-1")
def test_a_probe_of_a_build_that_is_refused_is_no_answer(ground: Ground) -> None:
    """What is wrong with the installation is said, whatever other mechanism would serve."""
    ground.build("a stale", "b available")
    with pytest.raises(NotCollected, match="it was built of other sources"):
        ground.resolve()


@pytest.mark.spec("RES-2", "REQ-9")
@pytest.mark.parametrize(
    ("backends", "collected", "whose", "first"),
    [
        (("a missing", "b available"), ("a",), Whose.MACHINE, "a: lab:missing"),
        (("a available", "b restricted"), ("b",), Whose.MACHINE, "b: lab:restricted"),
        (("a missing", "b available"), (), Whose.BUILD, "b: no installed plugin collects it"),
        (("a missing", "b restricted"), (), Whose.MACHINE, "a: lab:missing"),
        (("a missing", "b available modes: [count]"), ("a", "b"), Whose.MACHINE, "a: lab:missing"),
    ],
)
def test_a_refusal_names_whose_it_is(
    ground: Ground, backends: tuple[str, ...], collected: tuple[str, ...], whose: Whose, first: str
) -> None:
    """Something collected that lacks only this makes it the machine's; else what nobody wrote is the build's."""
    ground.build(*backends, collected=collected)
    with pytest.raises(Refused) as caught:
        ground.resolve()
    assert caught.value.whose is whose
    assert f"({first}" in caught.value.reason


@pytest.mark.spec("RES-3")
@pytest.mark.parametrize(
    ("pinned", "error", "said"),
    [
        ("gone", MachineRefused, "through the pinned backend (gone: lab:missing: it is missing)"),
        ("unwritten", NotCollected, "through the pinned backend (unwritten: no installed plugin collects it)"),
        ("neither", MachineRefused, "through the pinned backend (neither: lab:missing: it is missing)"),
        ("counts", RequestError, "the pinned backend counts does not fit: it serves count, not poll"),
        ("nowhere", RequestError, "lab.depth has no backend 'nowhere'"),
    ],
)
def test_a_pinned_backend_is_refused_by_its_own_gap(ground: Ground, pinned: str, error: type, said: str) -> None:
    """A pin's missing requirement is the machine's, its missing collector alone the build's, a misfit the request's."""
    ground.build(
        "good available",
        "gone missing",
        "unwritten available",
        "neither missing",
        "counts available modes: [count]",
        collected=("good", "gone", "counts"),
    )
    with pytest.raises(error) as caught:
        ground.resolve(backend=pinned)
    assert said in str(caught.value)


@pytest.mark.spec("RES-3")
def test_a_pin_is_said_and_nothing_else_is_walked(ground: Ground) -> None:
    """A pinned backend that serves is marked pinned, and is the whole of the chain walked."""
    ground.build("good available", "other unknown")
    resolved = ground.resolve(backend="other")
    assert resolved.pinned
    assert states(resolved) == {"other": "selected"}
    assert resolved.unverified


CARRIERS = [
    ("available", True, RequestError, "pin it with --backend force:rich"),
    ("available", False, NotCollected, "rich would carry it, and does not serve: no installed plugin collects it"),
    ("missing", True, MachineRefused, "rich would carry it, and does not serve: lab:missing: it is missing"),
]


@pytest.mark.spec("RES-4")
@pytest.mark.parametrize(("state", "is_collected", "error", "said"), CARRIERS)
@pytest.mark.parametrize("asked", [{"keys": ["cpu"]}, {"filter": "comm == 'x'"}, {"emits": ["summary@comm"]}])
def test_a_key_or_field_the_chosen_backend_lacks_names_the_one_that_carries_it(
    ground: Ground, state: str, is_collected: bool, error: type, said: str, asked: dict[str, Any]
) -> None:
    """The chain is not walked on for a key: the refusal is the carrier's gap, and a pin is advised where it serves."""
    ground.build(
        "poor available keys: [task], filter_fields: [depth]",
        f"rich {state}",
        collected=("poor", "rich") if is_collected else ("poor",),
    )
    assert ground.resolve(keys=["task"]).backend.id == "poor"
    with pytest.raises(error) as caught:
        ground.resolve(**asked)
    assert said in str(caught.value)
    assert "lab.depth is served by poor, whose events carry no" in str(caught.value)


@pytest.mark.spec("RES-4")
def test_a_carrier_of_another_mode_says_which(ground: Ground) -> None:
    """It serves, asked otherwise: the refusal is the request's, with the words that would ask it."""
    ground.build("poor available keys: [task], modes: [poll]", "rich available modes: [count]")
    with pytest.raises(RequestError, match=r"rich would carry it, and does not serve.*--mode count"):
        ground.resolve(keys=["cpu"])


@pytest.mark.spec("RES-4")
def test_a_value_that_the_chosen_backend_lacks_is_refused(ground: Ground) -> None:
    """One that another backend declares: the answer would be of nothing. One that none declares is the collector's."""
    changes = {
        "attributes": "{depth: count, deep: count, deeper: count}",
        "filter_fields": "[depth, deep]",
        "keys": "[]",
    }
    ground.build("poor available filter_fields: [depth]", "rich available", changes=changes)
    with pytest.raises(RequestError, match="events carry no value 'deep'; rich carries it"):
        ground.resolve(value="deep")
    assert ground.resolve(value="deeper").backend.id == "poor"
    assert ground.resolve(value="deep", backend="rich").value == "deep"


@pytest.mark.spec("RES-5")
def test_a_pair_of_mode_and_target_no_backend_declares_is_the_requests(ground: Ground) -> None:
    """Where every backend serves either the mode or the target but none both, no machine could answer."""
    ground.build("a available modes: [poll], targets: [pid]", "b available modes: [count], targets: [system]")
    with pytest.raises(RequestError, match=r"no mechanism of lab\.depth serves mode poll on the target --system"):
        ground.resolve(target={"system": True})


@pytest.mark.spec("REQ-4")
def test_only_the_one_option_the_catalog_leaves_is_picked_and_it_is_said(ground: Ground) -> None:
    """A single mode, emit and target are picked and said; several are listed and the flag required."""
    one = {"modes": "[poll]", "emits": "{poll: [summary]}", "targets": "{system: yes, pid: 'no: never'}"}
    ground.build("a available", changes=one)
    resolved = ground.resolve(mode=None, emits=[], target=None)
    assert (resolved.mode, str(resolved.emits[0]), resolved.target.kind) == ("poll", "summary", "system")
    assert resolved.defaulted == (
        "the machine, the one target it serves",
        "mode poll, the one it has",
        "emit summary, the one of mode poll",
    )
    ground.build("a available")
    for fields, said in (
        ({"mode": None}, r"has several modes \(poll, count\); choose one with --mode"),
        ({"emits": []}, r"has several emits in mode poll \(summary, hist, raw, rate, topk\); choose with --emit"),
        ({"target": None}, "serves several targets and none was named; name one of -- PROGRAM, --pid, --system"),
    ):
        with pytest.raises(RequestError, match=said):
            ground.resolve(**fields)


@pytest.mark.spec("REQ-5", "EMT-1")
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"mode": "trace"}, "lab.depth has no mode 'trace'; its modes are poll, count"),
        ({"emits": ["timeline"]}, "lab.depth has no emit 'timeline'"),
        ({"emits": ["count"]}, "lab.depth has no emit 'count' in mode poll"),
        ({"emits": ["summary:3"]}, "emit summary takes no number"),
        ({"emits": ["raw@comm"]}, "emit raw is not divided by an attribute"),
        ({"emits": ["summary@task"]}, "lab.depth has no 'task' to divide summary by"),
        ({"emits": ["rate"], "value": "share"}, "emit rate needs values that add up, and 'share' is a level"),
        ({"keys": ["gpu"]}, "lab.depth has no key 'gpu'; did you mean 'cpu'? its keys are task, cpu"),
        ({"value": "comm"}, "lab.depth measures no 'comm'; its values are depth, share"),
        ({"filter": "colour == 1"}, "lab.depth has no field 'colour'"),
        ({"filter": "dept == 1"}, "did you mean 'depth'?"),
        ({"filter": "comm == 1"}, "'comm' is a text, not 1"),
        ({"filter": "depth == 'x'"}, "'depth' is a number, not 'x'"),
        ({"filter": "comm < 'x'"}, "'comm' is a text, and texts have no order here"),
        ({"mode": "count", "emits": ["count"], "interval_ns": 5}, "--interval means something in mode poll alone"),
        ({"hz": 99}, "--hz means something in mode sample alone"),
        ({"target": {"tid": 1}}, "does not serve the target --tid 1: a thread has no depth"),
        ({"target": {"cpu": [0]}}, "does not serve the target --cpu 0: it serves launch, pid, system"),
    ],
)
def test_an_invalid_combination_is_refused_with_its_reason(ground: Ground, fields: dict[str, Any], said: str) -> None:
    """What no machine could serve is the request's, before any machine is asked."""
    ground.build("a raising")
    with pytest.raises(RequestError) as caught:
        validate_session(ground.session(**fields), ground.catalog, ground.registry)
    assert said in str(caught.value)


@pytest.mark.spec("EVT-6")
@pytest.mark.parametrize(
    "fields",
    [{"keys": ["func"]}, {"emits": ["topk@object"]}, {"filter": "func == 'main'"}, {"keys": ["cpu", "within"]}],
)
def test_what_is_read_from_stacks_is_refused_where_none_are_walked(ground: Ground, fields: dict[str, Any]) -> None:
    """The request contradicts itself, whatever the machine; without --stack none it is served."""
    changes = {
        "stacks": "program",
        "keys": "[task, cpu, func, object, within]",
        "filter_fields": "[comm, cpu, depth, func, object]",
    }
    ground.build("a available", changes=changes)
    with pytest.raises(RequestError, match="is read from stacks, and --stack none walks none"):
        validate_session(ground.session(stack="none", **fields), ground.catalog, ground.registry)
    assert ground.resolve(**fields)


@pytest.mark.spec("REQ-14")
def test_a_machine_source_asked_for_a_program_is_told_the_spelling_that_serves(ground: Ground) -> None:
    """'This program' is never turned into 'this machine': the refusal gives the words that would ask it."""
    ground.build("a available", changes={"targets": "{system: yes}"})
    with pytest.raises(RequestError) as caught:
        ground.resolve(target={"launch": ["a program", "x"]})
    assert str(caught.value).endswith("the machine while the program runs is 'omn lab.depth --system -- 'a program' x'")


@pytest.mark.spec("REQ-15")
def test_the_interval_of_every_polled_source_is_a_second_unless_asked(ground: Ground) -> None:
    """Nothing asked is one second; what is asked stands; a count has no interval."""
    ground.build("a available")
    assert ground.resolve().interval_ns == 1_000_000_000
    assert ground.resolve(interval_ns=5).interval_ns == 5
    assert ground.resolve(mode="count", emits=["count"]).interval_ns is None


@pytest.mark.spec("REQ-15")
def test_what_cannot_work_is_refused_before_a_duration_is_advised(ground: Ground) -> None:
    """A request without an end that is also unserved is told what stands in its way, not to add --duration."""
    ground.build("a missing")
    with pytest.raises(MachineRefused):
        ground.resolve_all(ground.session(target={"system": True}, duration_ns=None))
    ground.build("a available")
    with pytest.raises(RequestError, match=r"nothing ends this run.*--duration"):
        ground.resolve_all(ground.session(target={"system": True}, duration_ns=None))
    assert ground.resolve_all(ground.session(duration_ns=None))
    assert ground.resolve_all(ground.session(target={"system": True}, duration_ns=None, launch=("true",)))


@pytest.mark.spec("REQ-10", "RES-7")
def test_several_processes_need_a_collector_that_follows_several(ground: Ground) -> None:
    """`--pid a,b` is refused before anything starts when the chosen collector follows one."""
    ground.build("a available")
    with pytest.raises(RequestError, match="follows one process, and --pid 1,2 names 2"):
        ground.resolve(target={"pid": [1, 2]})


@pytest.mark.spec("REQ-6")
@pytest.mark.parametrize(
    ("requests", "launch"),
    [
        ([{"target": {"launch": ["a"]}}, {"target": {"launch": ["b"]}}], None),
        ([{"target": {"launch": ["a"]}}], ("b",)),
    ],
)
def test_two_workloads_are_refused(ground: Ground, requests: list[Any], launch: Any) -> None:
    """A run launches one program, however the second is named."""
    ground.build("a available")
    session = Session(tuple(make_request(**fields) for fields in requests), launch=launch)
    with pytest.raises(RequestError, match="a run launches one program"):
        validate_session(session, ground.catalog, ground.registry)


@pytest.mark.spec("REQ-6")
@pytest.mark.parametrize(
    ("window", "raised", "said"),
    [
        (RequestWindow(on="request"), NotCollected, "a window 'on request' needs an escalation, which nothing serves"),
        (RequestWindow(start_ns=5, stop_ns=5), RequestError, "its window stops before it starts"),
    ],
)
def test_a_window_that_no_run_can_open_is_refused(
    ground: Ground, window: RequestWindow, raised: type[Exception], said: str
) -> None:
    """One that nothing switches on is the build's gap, one without length the request's."""
    ground.build("a available")
    session = Session((make_request(window=window),))
    with pytest.raises(raised, match=said):
        validate_session(session, ground.catalog, ground.registry)


@pytest.mark.spec("REQ-6")
@pytest.mark.parametrize(
    ("window", "said"),
    [
        (RequestWindow(start_ns=2_000), "its window starts 2us into a run of 2us"),
        (RequestWindow(start_ns=1_000, stop_ns=3_000), "its window stops 3us into a run of 2us"),
        (RequestWindow(stop_ns=2_000), None),
    ],
)
def test_a_window_past_the_end_of_the_run_is_refused(ground: Ground, window: RequestWindow, said: str | None) -> None:
    """A window that the duration cuts short, or that never opens in it, is not what was asked."""
    ground.build("a available")
    session = Session((make_request(window=window),), duration_ns=2_000)
    if said is None:
        validate_session(session, ground.catalog, ground.registry)
        return
    with pytest.raises(RequestError, match=said):
        validate_session(session, ground.catalog, ground.registry)


@pytest.mark.spec("REQ-5", "REQ-9")
@pytest.mark.usefixtures("shelf")
def test_a_session_names_every_gap_and_ends_with_the_first_to_fix(ground: Ground) -> None:
    """Every request that cannot be served is named at once; the code is the request's before the build's."""
    ground.build("a missing")
    session = Session(
        (
            make_request(mode="trace", id="one"),
            make_request("shelf.books", id="two"),
            make_request(keys=["gpu"], id="three"),
        )
    )
    with pytest.raises(Refused) as caught:
        validate_session(session, ground.catalog, ground.registry)
    lines = caught.value.reason.splitlines()
    assert caught.value.whose is Whose.REQUEST
    assert lines[0] == "3 things stand in the way:"
    assert [line.split(":")[0].strip() for line in lines[1:]] == ["one", "three", "two"]


@pytest.mark.spec("REQ-9")
def test_a_session_of_a_build_gap_and_a_machine_gap_ends_with_the_builds(ground: Ground) -> None:
    """Between what nobody wrote and what the machine lacks, the build's is the first to fix."""
    ground.build("a missing modes: [poll]", "b available modes: [count]", collected=("a",))
    session = Session((make_request(), make_request(mode="count", emits=["count"])))
    with pytest.raises(Refused) as caught:
        ground.resolve_all(session)
    assert caught.value.whose is Whose.BUILD
    assert "this machine cannot serve" in caught.value.reason


@pytest.mark.spec("PLG-7")
@pytest.mark.parametrize(
    ("source", "error", "said"),
    [
        ("shelf.books", NotCollected, "install omn-shelf"),
        ("shelf.nonsense", NotCollected, "the family 'shelf' is not installed; install omn-shelf"),
        ("lab.dept", RequestError, "no source is called 'lab.dept'; did you mean 'lab.depth'?"),
        ("zzz", RequestError, "'omn list' shows every source"),
        ("lab", RequestError, "'lab' is a family; its sources are lab.depth"),
    ],
)
@pytest.mark.usefixtures("shelf")
def test_an_unknown_source_is_told_from_one_not_installed(ground: Ground, source: str, error: type, said: str) -> None:
    """A known word names what to install (3); an unknown one the nearest there is (2)."""
    ground.build("a available")
    with pytest.raises(error) as caught:
        ground.resolve(source=source)
    assert said in str(caught.value)


@pytest.mark.spec("PRB-7")
def test_the_listing_never_calls_a_source_usable_through_what_nobody_collects(ground: Ground) -> None:
    """Usable means collected and wholly available; each backend keeps its state, its collector and its reason."""
    ground.build("a available", "b unknown", "c restricted", "d available", collected=("b", "c"))
    (listed,) = list_sources(ground.catalog, ground.registry, ProbeTable(ground.registry), "lab.depth")["sources"]
    assert listed["usable"] is False
    assert listed["through"] is None
    assert [(b["id"], b["state"], b["collected"]) for b in listed["backends"]] == [
        ("a", "available", False),
        ("b", "unknown", True),
        ("c", "restricted", True),
        ("d", "available", False),
    ]
    assert listed["backends"][2]["reason"] == "lab:restricted: it is restricted"
    ground.build("a available", "b available", collected=("b",))
    (listed,) = list_sources(ground.catalog, ground.registry, ProbeTable(ground.registry), "lab.depth")["sources"]
    assert (listed["usable"], listed["through"]) == (True, "b")


@pytest.mark.spec("REQ-7")
@pytest.mark.parametrize(
    ("predicate", "where"),
    [("comm == 'x'", "kernel"), ("comm != 'x'", "userspace"), ("depth == 1", "userspace"), (None, None)],
)
def test_the_resolved_request_says_who_applies_its_filter(ground: Ground, predicate: str | None, where: str) -> None:
    """Only one-value equalities over what the program compares are the kernel's."""
    ground.build("a available filter_in_program: [comm]")
    assert ground.resolve(**({} if predicate is None else {"filter": predicate})).filter_applied_by == where


@pytest.mark.spec("EVT-3")
def test_another_value_changes_the_unit_and_what_adds_up(ground: Ground) -> None:
    """`--value` switches the attribute; its own unit follows, and a level does not add up."""
    ground.build("a available")
    own, other = ground.resolve(), ground.resolve(value="share")
    assert (own.value, own.unit, own.adds_up) == ("depth", "count", True)
    assert (other.value, other.unit, other.adds_up) == ("share", "ratio", False)
    assert (own.scale, other.scale) == ("count", "ratio")


@pytest.mark.spec("CAT-12")
def test_a_backend_never_seen_on_its_hardware_says_so(ground: Ground) -> None:
    """A reader tested on captured trees alone is listed as such and is among what could not be verified."""
    ground.build("a available unseen: 'trees of one kernel'")
    assert ground.resolve().unverified == ("lab.depth through a was never run on its hardware: trees of one kernel",)
    (listed,) = list_sources(ground.catalog, ground.registry, ProbeTable(ground.registry), "lab.depth")["sources"]
    assert listed["backends"][0]["unseen"] == "trees of one kernel"


@pytest.mark.spec("PLG-9", "PLG-11")
def test_a_requirement_goes_to_the_one_plugin_that_declared_its_class(laboratory: Any, record_of: Any) -> None:
    """Two strangers that claim one class: neither answers, and what needs it does not load."""
    for name in ("one", "two"):
        laboratory.install(
            name,
            "from omn_core.api import RequirementRow, hookimpl\nOMN_CONTRACT = '1.0'\n"
            "@hookimpl\ndef omn_requirements():\n    return [RequirementRow('tide', 'x:y')]\n",
        )
    registry = laboratory.discover(("omn",))
    assert "tide" not in registry.requirements
    assert "requirement class tide is claimed by" in record_of(registry, "one").reason


@pytest.mark.spec("PLG-11")
def test_no_other_plugin_is_asked_about_a_class(laboratory: Any, ground: Ground) -> None:
    """A probe of another class is neither imported nor called for a requirement that is not its own."""
    laboratory.install(
        "other",
        "from omn_core.api import RequirementRow, hookimpl\nOMN_CONTRACT = '1.0'\n"
        "@hookimpl\ndef omn_requirements():\n    return [RequirementRow('other', 'omn_other.asked:probe')]\n",
        asked__py="raise AssertionError('this plugin was asked')",
    )
    ground.build("a available", "b unknown")
    (listed,) = list_sources(ground.catalog, ground.registry, ProbeTable(ground.registry), "lab.depth")["sources"]
    assert [backend["state"] for backend in listed["backends"]] == ["available", "unknown"]
    assert "other" in ground.registry.requirements
    assert "omn_other.asked" not in sys.modules


@pytest.mark.spec("RES-1")
def test_what_a_request_names_is_known_by_word_and_never_by_a_part_of_one(ground: Ground) -> None:
    """A key, a filter's field and an emit's attribute are named; a longer word that holds the name is not it."""
    ground.build("a available")
    filtered = ground.resolve(filter="comm == 'depth'")
    assert (filtered.is_divided_by("comm"), filtered.is_divided_by("depth")) == (True, False)
    assert not filtered.is_divided_by("com")
    assert ground.resolve(keys=["task"]).is_divided_by("task")
    assert ground.resolve(emits=["summary@comm"]).is_divided_by("comm")
    raw = ground.resolve(emits=["raw"])
    assert (raw.shows("comm"), raw.is_divided_by("comm")) == (True, False)


@pytest.mark.spec("PRB-7")
def test_a_brief_listing_asks_no_more_than_what_a_source_is_usable_through(ground: Ground) -> None:
    """A usable source names its backend and nothing behind it is probed; one that is not names every reason,
    of a backend that nobody collects without asking for it.
    """
    ground.build("a raising", "b missing", "c available", "d unknown", collected=("b", "c", "d"))
    probes = ProbeTable(ground.registry)
    (listed,) = list_sources(ground.catalog, ground.registry, probes, "lab.depth", brief=True)["sources"]
    assert (listed["through"], [one["id"] for one in listed["backends"]]) == ("c", ["c"])
    (whole,) = list_sources(ground.catalog, ground.registry, probes, "lab.depth")["sources"]
    assert (whole["through"], [one["id"] for one in whole["backends"]]) == ("c", ["a", "b", "c", "d"])
    ground.build("a missing", "b unknown")
    (listed,) = list_sources(ground.catalog, ground.registry, ProbeTable(ground.registry), "lab.depth", brief=True)[
        "sources"
    ]
    assert (listed["usable"], [one["id"] for one in listed["backends"]]) == (False, ["a", "b"])
    assert [one["state"] for one in listed["backends"]] == ["missing", "unknown"]
    ground.build("a raising", "b missing", collected=("b",))
    (listed,) = list_sources(ground.catalog, ground.registry, ProbeTable(ground.registry), "lab.depth", brief=True)[
        "sources"
    ]
    assert [(one["state"], one["collected"]) for one in listed["backends"]] == [(None, False), ("missing", True)]

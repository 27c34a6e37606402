"""A family's name into requests: bands, targets, what is left out, and every refusal."""

from __future__ import annotations

import shlex
from typing import Any

import attrs
import pytest

from omn_core.errors import NotCollected, Refused, RequestError, Whose
from omn_core.model.request import Composition, Request, Session, parse_emit
from omn_core.model.target import Target, parse_target
from omn_core.resolve.compose import FamilyRequest, compose
from omn_core.resolve.probes import ProbeTable
from omn_core.resolve.session import resolve_session, validate_session
from omn_core.session.command import render_command

WIDE = {"id": "lab.wide", "targets": "{launch: yes, pid: yes, system: yes}"}
MACHINE = {"id": "lab.machine", "targets": "{system: yes, launch: 'no: it is of the machine'}"}
GROUP = {"id": "lab.group", "targets": "{cgroup: yes}"}
POLL = "{{source: {}, mode: poll, emits: [summary], interval: 2s}}"
COUNT = "{{source: {}, mode: count, emits: [count]}}"
PID = Target("pid", (7,))
PROGRAM = Target("launch", ("./server", "a b"))


class Family:
    """The family `lab` with a default, and what its name is asked."""

    def __init__(self, laboratory: Any, entry_text: Any) -> None:
        self.laboratory = laboratory
        self.entry_text = entry_text

    def build(self, *entries: dict[str, str], uncollected: tuple[str, ...] = (), chain: str = "", **bands: str) -> None:
        """Install entries, all collected but those named, and a default (`none` or bands of requests)."""
        text = "".join(self.entry_text(entry, chain or None) for entry in entries)
        if bands:
            text += "- default: lab\n" + "".join(f"  {band}: {value}\n" for band, value in bands.items())
        names = [entry["id"] for entry in entries]
        self.laboratory.install_lab(text, [(name, "first") for name in names if name not in uncollected])
        self.registry, self.catalog = self.laboratory.load()
        assert set(names) <= set(self.catalog.entries), [r.reason for r in self.registry.records]

    def refuse(self, kind: type[Refused] = RequestError, **fields: Any) -> str:
        """Compose, and return what the refusal says."""
        with pytest.raises(kind) as caught:
            self.ask(**fields)
        return str(caught.value)

    def ask(self, **fields: Any) -> tuple[tuple[Request, ...], Composition]:
        """Compose `lab` on a process, or on what is given."""
        return compose(FamilyRequest(**{"family": "lab", "target": PID, **fields}), self.catalog, self.registry)


@pytest.fixture
def family(laboratory: Any, entry_text: Any) -> Family:
    """A family to be built."""
    return Family(laboratory, entry_text)


def name(requests: tuple[Request, ...]) -> list[str]:
    """Return the sources of requests."""
    return [request.source for request in requests]


@pytest.mark.spec("REQ-12")
def test_a_name_asks_its_cheapest_band_of_the_persons_target(family: Family) -> None:
    """Without a cost the cheapest band is asked, of the target; what does not serve it is named."""
    both = f"[{POLL.format('lab.wide')}, {COUNT.format('lab.machine')}]"
    family.build(WIDE, MACHINE, high=both, med=f"[{POLL.format('lab.wide')}, {COUNT.format('lab.machine')}]")
    requests, composition = family.ask()
    assert requests == (Request("lab.wide", "poll", requests[0].emits, target=PID, interval_ns=2_000_000_000),)
    assert (composition.family, composition.band, composition.said) == ("lab", "med", ())
    assert [(one.request.source, one.reason) for one in composition.unserved] == [("lab.machine", "it serves --system")]
    requests, composition = family.ask(target=PROGRAM)
    assert [one.reason for one in composition.unserved] == ["it is of the machine"]
    assert name(family.ask(target=Target("system"))[0]) == ["lab.wide", "lab.machine"]


@pytest.mark.spec("REQ-16")
def test_a_band_that_is_not_there_falls_to_the_dearest_below_or_is_refused(family: Family) -> None:
    """Both are said: the band that was asked in its place, and the one to ask."""
    family.build(WIDE, med=f"[{POLL.format('lab.wide')}]")
    _, composition = family.ask(band="high")
    assert (composition.band, composition.said) == ("med", ("lab has no band high; med is its dearest below",))
    assert family.ask(band="med")[1].said == ()
    assert family.refuse(band="low") == "lab asks nothing within the band low; its cheapest is --cost med"
    assert family.refuse(band="cheap") == "no cost band is called 'cheap'; the bands are low, med, high"


@pytest.mark.spec("REQ-12")
@pytest.mark.usefixtures("shelf")
def test_a_family_without_a_default_says_why_and_what_it_has(family: Family) -> None:
    """One that declares none, one that declares why, one that is not installed and one nobody knows each say theirs."""
    family.build(WIDE, MACHINE)
    said = "'lab' is a family, and it declares no default; its sources are lab.machine, lab.wide"
    assert family.refuse() == said
    family.build(WIDE, none="a probe would go into the program")
    said = "'lab' is a family without a default: a probe would go into the program; its sources are lab.wide"
    assert family.refuse() == said
    said = "the family 'shelf' is not installed; install omn-shelf to have it"
    assert family.refuse(NotCollected, family="shelf") == said
    assert family.refuse(family="labb") == "no source and no family is called 'labb'; did you mean 'lab'?"


@pytest.mark.spec("REQ-14")
def test_a_target_that_nothing_serves_is_refused_with_what_would_serve(family: Family) -> None:
    """A dearer band that serves it, the machine while the program runs, or the targets that are served."""
    family.build(MACHINE, WIDE, low=f"[{COUNT.format('lab.machine')}]", high=f"[{POLL.format('lab.wide')}]")
    with pytest.raises(RequestError, match="nothing that lab asks at cost low serves the target --pid 7; --cost high"):
        family.ask()
    family.build(MACHINE, low=f"[{COUNT.format('lab.machine')}]")
    with pytest.raises(RequestError, match="serves a launched program") as caught:
        family.ask(target=PROGRAM)
    spelled = "omn lab --system -- ./server 'a b'"
    assert caught.value.remedy == f"the machine while the program runs is '{spelled}'"
    with pytest.raises(RequestError) as caught:
        family.ask(target=PROGRAM, band="low")
    assert (
        caught.value.remedy == "the machine while the program runs is 'omn lab --cost low --system -- ./server 'a b''"
    )
    with pytest.raises(RequestError, match="serves the target --cpu 0; it serves --system"):
        family.ask(target=Target("cpu", (0,)))


@pytest.mark.spec("REQ-4", "REQ-12")
def test_without_a_target_only_a_machines_family_is_asked(family: Family) -> None:
    """Where every request is of the machine alone it is picked, and said; elsewhere the targets are listed."""
    family.build(MACHINE, low=f"[{COUNT.format('lab.machine')}]")
    requests, composition = family.ask(target=None)
    assert requests[0].target == Target("system")
    assert composition.said == ("the machine is measured, the one target that is served",)
    family.build(WIDE, low=f"[{COUNT.format('lab.wide')}]")
    with pytest.raises(RequestError, match="nothing says what lab is to be measured of; name one of -- PROGRAM, --pid"):
        family.ask(target=None)
    with pytest.raises(RequestError, match="takes a --duration, or a program beside it"):
        family.ask(target=None)


@pytest.mark.spec("REQ-12")
def test_what_no_backend_serves_on_the_target_is_left_out(family: Family) -> None:
    """A key that is not carried there, a mode that is not served there and a pair nobody collects each say so."""
    chain = (
        "{id: first, requires: ['lab:available'], cost: low, targets: [system]}\n"
        "{id: second, requires: ['lab:available'], cost: low, equivalent: true, targets: [launch, pid], keys: [],"
        " modes: [poll], uncollected: 'nobody wrote it'}"
    )
    asked = "{source: lab.wide, mode: poll, emits: [summary], keys: [task]}"
    family.build(WIDE, chain=chain, low=f"[{asked}, {COUNT.format('lab.wide')}, {POLL.format('lab.wide')}]")
    assert len(family.ask(target=Target("system"))[0]) == 3
    assert family.refuse().endswith("; it serves --system")
    assert family.ask(target=None)[0][0].target == Target("system")
    family.build(
        WIDE, {**MACHINE, "targets": "{pid: yes}"}, chain="", uncollected=("lab.wide",),
        low=f"[{COUNT.format('lab.wide')}, {COUNT.format('lab.machine')}]",
    )  # fmt: skip
    _, composition = family.ask()
    assert [one.reason for one in composition.unserved] == [
        "nothing collects it on --pid yet: no installed plugin does"
    ]


@pytest.mark.spec("REQ-12", "REQ-16")
def test_what_costs_more_than_the_band_on_the_target_is_left_out(family: Family) -> None:
    """A band is kept on each target, by what is collected there; a dearer band that is asked admits it."""
    chain = (
        "{id: second, requires: ['lab:available'], cost: low, targets: [system]}\n"
        "{id: first, requires: ['lab:available'], cost: high, equivalent: true, targets: [pid]}\n"
        "{id: third, requires: ['lab:available'], cost: high, equivalent: true, uncollected: 'nobody wrote it'}"
    )
    family.build(WIDE, chain=chain, low=f"[{COUNT.format('lab.wide')}]")
    assert family.refuse().startswith("nothing that lab asks at cost low serves the target --pid 7")
    requests, composition = family.ask(band="high")
    assert (name(requests), composition.band) == (["lab.wide"], "low")


@pytest.mark.spec("REQ-12")
def test_a_key_that_the_targets_backend_lacks_leaves_its_request_out(family: Family) -> None:
    """The same source without the key is asked all the same."""
    chain = (
        "{id: other, requires: ['lab:available'], cost: low, targets: [system]}\n"
        "{id: first, requires: ['lab:available'], cost: low, equivalent: true, targets: [launch, pid], keys: []}"
    )
    asked = "{source: lab.wide, mode: poll, emits: [summary], keys: [task]}"
    family.build(WIDE, chain=chain, low=f"[{asked}, {POLL.format('lab.wide')}]")
    requests, composition = family.ask()
    assert [request.keys for request in requests] == [()]
    assert [one.reason for one in composition.unserved] == ["no mechanism of it answers mode poll by task on --pid"]


@pytest.mark.spec("REQ-11", "REQ-12")
def test_a_container_is_asked_as_its_cgroup(family: Family) -> None:
    """A source that serves cgroups serves a container."""
    family.build(WIDE, GROUP, low=f"[{POLL.format('lab.wide')}, {POLL.format('lab.group')}]")
    assert name(family.ask(target=Target("container", "web"))[0]) == ["lab.group"]


@pytest.mark.spec("REQ-15")
def test_an_interval_is_every_polled_requests(family: Family) -> None:
    """One that is asked replaces the default's own in every poll and in nothing else; without a poll it is wrong."""
    family.build(
        WIDE, low=f"[{POLL.format('lab.wide')}, {COUNT.format('lab.wide')}]", med=f"[{COUNT.format('lab.wide')}]"
    )
    assert [one.interval_ns for one in family.ask(interval_ns=5)[0]] == [5, None]
    assert [one.interval_ns for one in family.ask()[0]] == [2_000_000_000, None]
    with pytest.raises(RequestError, match="--interval means something in mode poll alone, and lab polls nothing here"):
        family.ask(band="med", interval_ns=5)


def make_session(family: Family, **fields: Any) -> Session:
    """Compose, and make the session of it."""
    requests, composition = family.ask(**fields)
    return Session(requests, duration_ns=1, cost_band=composition.band, composition=composition)


@pytest.mark.spec("REQ-12")
def test_what_the_machine_cannot_serve_is_left_out_while_something_remains(family: Family) -> None:
    """A composed request is dropped with the machine's reason; a person's own never is, and the last one refuses."""
    broken = {**WIDE, "id": "lab.broken"}
    text = f"[{POLL.format('lab.broken')}, {POLL.format('lab.wide')}]"
    entries = family.entry_text(broken, "{id: first, requires: ['lab:missing'], cost: free}")
    entries += family.entry_text(WIDE)
    pairs = [("lab.broken", "first"), ("lab.wide", "first")]
    family.laboratory.install_lab(f"{entries}- default: lab\n  low: {text}\n", pairs)
    family.registry, family.catalog = family.laboratory.load()

    def resolve(session: Session) -> Any:
        valid = validate_session(session, family.catalog, family.registry)
        return resolve_session(valid, family.registry, ProbeTable(family.registry), {})

    session = make_session(family)
    resolved = resolve(session)
    assert name(resolved.session.requests) == [one.entry.id for one in resolved.requests] == ["lab.wide"]
    (refused,) = resolved.session.composition.refused
    assert refused.request.source == "lab.broken"
    assert "this machine cannot serve lab.broken in mode poll (first: lab:missing: it is missing)" in refused.reason
    own = Session(session.requests, duration_ns=1)
    alone = Session(session.requests[:1], duration_ns=1, composition=session.composition)
    for refused_whole in (own, alone):
        with pytest.raises(Refused, match=r"this machine cannot serve lab\.broken") as caught:
            resolve(refused_whole)
        assert caught.value.whose is Whose.MACHINE


@pytest.mark.spec("REQ-12")
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"target": {"pid": [1, 2]}}, ["--pid", "1,2"]),
        ({"target": {"launch": ["a b", "--", "it's"]}}, ["--", "a b", "--", "it's"]),
        ({"target": {"cgroup": "/a group"}}, ["--cgroup", "/a group"]),
        ({"target": {"system": True}, "backend": "first"}, ["--backend", "force:first", "--system"]),
        ({"keys": ("task", "cpu"), "interval_ns": 250_000_000}, ["--keys", "task,cpu", "--interval", "250ms"]),
        ({"filter": "comm == 'x'", "value": "share"}, ["--filter", "comm == 'x'", "--value", "share"]),
        ({"stack": "fp", "hz": 97, "symbols": "none"}, ["--stack", "fp", "--hz", "97", "--symbols", "none"]),
    ],
)
def test_a_request_in_its_long_form_is_a_shells_own_words(fields: dict[str, Any], said: list[str]) -> None:
    """Whatever the names hold, a shell reads the words back, in the order in which the command line takes them."""
    target = parse_target(fields.pop("target", {"pid": [1]}))
    request = Request("lab.wide", "poll", (parse_emit("topk:3@comm"),), target=target, **fields)
    words = shlex.split(render_command(request))
    assert words[:6] == ["omn", "lab.wide", "-m", "poll", "-e", "topk:3@comm"]
    assert words[6:][: len(said)] == said
    beside = shlex.split(render_command(attrs.evolve(request, target=Target("system")), ("./load",), 3_000_000_000))
    assert beside[-5:] == ["-d", "3s", "--system", "--", "./load"]

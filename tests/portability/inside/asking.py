"""Ask this machine everything, as the user who runs this, and print the answers as one JSON object.

    python asking.py [ANSWERS OF ANOTHER CONFIGURATION]

For each source: what `omn list` says. For each mode and kind of target of each source: the mechanism that serves it, or
the class of what stands in its way. Then everything that can be served is run, in one session around `program.py`, and
a mechanism that refuses to begin, fails or hears nothing is marked so.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from omn_core.catalog.load import load_catalog
from omn_core.cli.app import run_command
from omn_core.errors import MachineRefused, NotCollected, Refused, RequestError
from omn_core.model.catalog import Catalog, Entry
from omn_core.model.request import EmitSpec, Request, RequestWindow
from omn_core.model.resolved import LinkState
from omn_core.model.target import Target
from omn_core.plugins import Registry, discover
from omn_core.resolve.chain import resolve
from omn_core.resolve.complete import Completed, complete
from omn_core.resolve.judge import judge
from omn_core.resolve.probes import ProbeTable
from omn_core.session.shape import make_plain_request

PROGRAM = (sys.executable, "/portability/inside/program.py")
TARGETS = (
    Target("launch", PROGRAM),
    Target("system"),
    Target("cgroup", "/portability"),
    Target("iface", "lo"),
    Target("dev", "nvme0n1"),
)
"""One target of each kind that a guest has. What is launched runs in the cgroup."""

_SNAPSHOT_NS = 500_000_000
"""When in the program's life snapshots of it are taken."""
_LEAST_LIFE_S = 5.0
_HZ = 49
_CHEAP = ("count", "summary", "hist")
_WORST_FIRST = (LinkState.RESTRICTED, LinkState.UNKNOWN, LinkState.MISSING)
_ROUNDS = 20
_LAUNCHED = " launch "
_TOO_LATE = "its target ended before its snapshot was taken"


def main() -> None:
    """Print the listing, the answer to each question, and the reasons of those that are not served."""
    registry = discover()
    catalog = load_catalog(registry)
    probes = ProbeTable(registry)
    questions = dict(iter_questions(catalog, registry))
    answers: dict[str, str] = {}
    reasons: dict[str, str] = {}
    began = time.monotonic()
    for name, completed in questions.items():
        try:
            answers[name] = resolve(completed, registry, probes).backend.id
        except Refused as refused:
            answers[name] = _find_class(completed, refused, registry, probes)
            reasons[name] = str(refused)

    # The program outlives a reading of everything, however slow the guest is: as long as it took to ask for it all.
    life_s = max(_LEAST_LIFE_S, 1.5 * (time.monotonic() - began))
    every = dict(_iter_asked(questions, answers, reasons))
    asked = dict(every)
    for name, known in _read_known().items():
        mechanism, _, outcome = known.partition(", ")
        if name in asked and answers[name] == mechanism:
            del asked[name]
            if outcome:
                answers[name] = known
    if asked and not any(_LAUNCHED in name for name in asked):
        # What is asked of the machine alone launches no program, and nothing would end the session.
        asked |= dict([next(one for one in every.items() if _LAUNCHED in one[0])])
    for name, outcome, reason in run_session(asked, life_s) if asked else ():
        answers[name] = f"{answers[name]}, {outcome}"
        reasons[name] = reason
    print(json.dumps({"listed": list_sources(), "answers": answers, "reasons": reasons}))


def _read_known() -> dict[str, str]:
    """Read what this guest's first configuration answered, in whose file the first argument names it.

    What is served through the same mechanism was run already, and is not run again.
    """
    known: dict[str, str] = json.loads(Path(sys.argv[1]).read_text())["answers"] if len(sys.argv) > 1 else {}
    return known


def iter_questions(catalog: Catalog, registry: Registry) -> Iterator[tuple[str, Completed]]:
    """Yield every question with its name: the source, the kind of target, the mode."""
    for entry in catalog.entries.values():
        apart = tuple(key for key in entry.keys if key in catalog.vocabulary.apart)
        for target in TARGETS:
            for mode in entry.modes:
                request = _make_request(entry, mode, target, apart)
                try:
                    yield f"{entry.id} {target.kind} {mode}", complete(request, catalog, registry)
                except RequestError:
                    continue


def _make_request(entry: Entry, mode: str, target: Target, keys: tuple[str, ...]) -> Request:
    """Make the question in the form that is cheapest to answer: guests are slow."""
    offered = entry.emits[mode]
    emit = next((name for name in _CHEAP if name in offered), offered[0])
    return Request(
        entry.id,
        mode,
        (EmitSpec(emit),),
        keys,
        target=target,
        window=RequestWindow(start_ns=_SNAPSHOT_NS) if mode == "snapshot" else None,
        hz=_HZ if mode == "sample" else None,
        id=f"{entry.id} {target.kind} {mode}",
    )


def _find_class(completed: Completed, refused: Refused, registry: Registry, probes: ProbeTable) -> str:
    """Return what stands in the way: nobody collects it, it is closed to this user, it cannot be told, it is absent."""
    if isinstance(refused, NotCollected):
        return "uncollected"
    if not isinstance(refused, MachineRefused):
        return "not served"
    bound = probes.find_place(completed.target)
    if bound is not None:
        completed = attrs.evolve(completed, target=bound.target, bound=bound)
    states = {judge(completed, backend, registry, probes).link.state for backend in completed.entry.chain}
    return next((state.value for state in _WORST_FIRST if state in states), "refused")


def _iter_asked(
    questions: Mapping[str, Completed], answers: Mapping[str, str], reasons: Mapping[str, str]
) -> Iterator[tuple[str, Request]]:
    """Yield what is run: of each source, mechanism and kind of target the first mode that is served, and its trace.

    A mechanism counts and polls in the same way; one that tells of each event is made otherwise.
    """
    seen = set()
    for name, completed in questions.items():
        meant = (completed.entry.id, completed.target.kind, answers[name], completed.mode == "trace")
        if name not in reasons and meant not in seen:
            seen.add(meant)
            yield name, completed.request


def list_sources() -> dict[str, str]:
    """Return what `omn list` says of each source: through what it is usable, or that it is not."""
    code, stdout, stderr = run_omn("list", "--format", "json")
    if code != 0:
        raise RuntimeError(f"omn list ended with {code}: {stderr}")
    return {one["id"]: one["through"] if one["usable"] else "unusable" for one in json.loads(stdout)["sources"]}


def run_session(served: Mapping[str, Request], life_s: float) -> Iterator[tuple[str, str, str]]:
    """Run the questions in one session, and yield those that did not answer: the name, how, and why.

    A session with a request that is refused when it is to begin runs nothing. It is run again without that request.
    """
    left = dict(served)
    path = Path(f"/tmp/session-{os.geteuid()}.json")
    for _ in range(_ROUNDS):
        requests = [make_plain_request(_pace(request, life_s)) for request in left.values()]
        path.write_text(json.dumps({"duration": "60s", "program_stdout": "/dev/null", "requests": requests}))
        os.environ["PORTABILITY_LIFE_S"] = str(life_s)
        code, stdout, stderr = run_omn("-f", str(path), "--format", "json")
        if stdout:
            document = json.loads(stdout)
            if document["program"]["exit"] != {"code": 0}:
                raise RuntimeError(f"the program ended with {document['program']['exit']}: {stderr}")
            yield from _iter_unheard(document)
            return
        refused = dict(_iter_refused(stderr, left))
        if not refused:
            raise RuntimeError(f"the session ended with {code}: {stderr}")
        for name, reason in refused.items():
            del left[name]
            yield name, "refused", reason
    raise RuntimeError(f"a session was refused {_ROUNDS} times: {refused}")


def _pace(request: Request, life_s: float) -> Request:
    """Have a polled source read three times in the program's life."""
    return attrs.evolve(request, interval_ns=int(life_s / 4 * 1e9)) if request.mode == "poll" else request


def run_omn(*words: str) -> tuple[int, str, str]:
    """Run the command line here, where everything is imported, and return its code and what it wrote."""
    written = [io.TextIOWrapper(io.BytesIO(), write_through=True) for _ in range(2)]
    with contextlib.redirect_stdout(written[0]), contextlib.redirect_stderr(written[1]):
        code = run_command(list(words))
    stdout, stderr = (stream.buffer.getvalue().decode() for stream in written)
    return code, stdout, stderr


def _iter_refused(stderr: str, asked: Mapping[str, Request]) -> Iterator[tuple[str, str]]:
    """Yield the requests that a refusal names, with its sentence."""
    for line in stderr.splitlines():
        found = re.match(r"(?:omn: |  )(\S+ \S+ \S+?): (.*)", line)
        if found is not None and found[1] in asked:
            yield found[1], found[2]


def _iter_unheard(document: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the results that failed or saw no event."""
    for result in document["results"]:
        name = result["request"]["id"]
        if result.get("failure"):
            yield name, "failed", result["failure"]
        elif not result["events_seen"]:
            losses = result["losses"]
            # Of readings that a slow guest never made nothing is known.
            if not losses["swallowed"] and not losses["late_ticks"] and _TOO_LATE not in result["facts"]:
                yield name, "silent", "; ".join(["no event was seen", *losses["reasons"], *result["facts"]])


if __name__ == "__main__":
    main()

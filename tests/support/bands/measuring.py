"""What every mechanism of the catalog costs on its family's reference workload, beside a bare run of it.

Omn's own share is the cpu time that it used in the window over the workload's, without what each run costs once. What
is spent inside the workload is the kernel's account of programs where there is one, which is precise; else how much
more cpu time a round of the workload took than in the bare run before it, which is as precise as such pairs are alike.
"""

from __future__ import annotations

import contextlib
import io
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from bands import workload
from bands.table import Measured, Row, Unmeasured, compute_middle, find_band
from omn_core.cli.app import run_command
from omn_core.errors import RequestError
from omn_core.model.catalog import Backend, Catalog, Entry
from omn_core.model.request import EmitSpec, Request
from omn_core.model.resolved import LinkState
from omn_core.model.target import Target
from omn_core.plugins import Registry
from omn_core.resolve.complete import complete
from omn_core.resolve.judge import judge
from omn_core.resolve.probes import ProbeTable
from omn_core.session.shape import make_plain_request

LIVES_S = (0.2, 1.0)
"""How long a workload runs: what a run costs once is in both, and what lies between them is what its time costs."""

_INTERVAL_NS = 50_000_000
_PER_SECOND = _INTERVAL_NS / 1e9
"""A polled source is read this often here, and its share is that of one reading a second, which is the default."""

_PAIR_LIFE_S = 0.5
_ROUNDS = 3
_PAIRS, _MOST_PAIRS = 7, 14
GATE = 1.0
"""How many percent a comparison with bare runs may be off by: where it is more there are more pairs of runs."""

_TIMED = Path("/proc/sys/kernel/bpf_stats_enabled")
_FILTERS = {"runtime.func": 'function == "PyMem_Malloc"', "runtime.custom": 'function == "PyMem_Malloc"'}
"""What a source asks to be told, of the interpreter that runs the workload."""


@attrs.frozen
class Run:
    """One run of a workload: its cpu time and what was spent on watching it, nanoseconds.

    Beside how often it went round, and how many events were seen.
    """

    cpu_ns: int
    rounds: int
    events: int = 0
    own_ns: int = 0
    inside_ns: int | None = None

    @property
    def round_ns(self) -> float:
        """The cpu time of one round."""
        return self.cpu_ns / self.rounds


class Bench:
    """The reference workloads, bare and under every mechanism."""

    def __init__(self, catalog: Catalog, registry: Registry, folder: Path) -> None:
        self._catalog = catalog
        self._registry = registry
        self._probes = ProbeTable(registry)
        self._folder = folder

    def measure_all(self) -> Iterator[Row]:
        """Measure each mechanism that somebody collects, in every mode that is read over a window."""
        for entry in self._catalog.entries.values():
            for backend in entry.chain:
                if backend.uncollected is None and entry.family in workload.ROUNDS:
                    yield from self._measure(entry, backend)

    def _measure(self, entry: Entry, backend: Backend) -> Iterator[Row]:
        modes = [mode for mode in entry.modes_of(backend) if mode != "snapshot"]
        kind = next((kind for kind in ("launch", "system") if kind in entry.targets_of(backend)), None)
        if not modes or kind is None:
            reason = "it is read once, not over a window" if kind else "it serves neither a program nor the machine"
            yield Unmeasured(entry.id, backend.id, reason)
            return
        for mode in modes:
            request = self._make_request(entry, backend, mode, kind)
            completed = complete(request, self._catalog, self._registry)
            link = judge(completed, backend, self._registry, self._probes).link
            if link.state not in (LinkState.AVAILABLE, LinkState.UNKNOWN):
                yield Unmeasured(entry.id, backend.id, link.reason or link.state.value)
                return
            row = self._measure_request(entry, backend, request)
            yield row
            if isinstance(row, Unmeasured):
                return

    def _make_request(self, entry: Entry, backend: Backend, mode: str, kind: str) -> Request:
        argv = self._make_argv(entry.family)
        emits = entry.emits_of(backend, mode)
        return Request(
            entry.id,
            mode,
            (EmitSpec(entry.default.emits.get(mode, emits[0])),),
            tuple(key for key in entry.keys_of(backend) if key in self._catalog.vocabulary.apart),
            target=Target("launch", argv) if kind == "launch" else Target("system"),
            interval_ns=_INTERVAL_NS if mode == "poll" else None,
            backend=backend.id,
            filter=_FILTERS.get(entry.id),
        )

    def _measure_request(self, entry: Entry, backend: Backend, request: Request) -> Row:
        """Measure once; where that is not what the catalog declares twice more, and take the middle."""
        lives: list[Sequence[Run]] = []
        try:
            row = self._measure_lives(entry, backend, request, lives, 1)
            if find_band(row.least) != backend.cost:
                row = self._measure_lives(entry, backend, request, lives, _ROUNDS)
        except RequestError as refused:
            return Unmeasured(entry.id, backend.id, str(refused))
        return row

    def _measure_lives(
        self, entry: Entry, backend: Backend, request: Request, lives: list[Sequence[Run]], rounds: int
    ) -> Measured:
        """Run the workload short and long until `lives` has so many of both, and compute the shares of them all."""
        assert request.mode is not None
        assert request.target is not None
        while len(lives) < rounds:
            lives.append([self._run(entry, request, life_s) for life_s in LIVES_S])
        scale = _PER_SECOND if request.mode == "poll" else 1.0
        own = statistics.median((long.own_ns - short.own_ns) / (long.cpu_ns - short.cpu_ns) for short, long in lives)
        long = lives[0][-1]
        events = round(long.events / (long.cpu_ns / 1e9))
        named = (entry.id, backend.id, request.mode, request.target.kind, events, max(0.0, round(100 * scale * own, 3)))
        accounts = [
            (long.inside_ns - short.inside_ns) / (long.cpu_ns - short.cpu_ns)
            for short, long in lives
            if short.inside_ns is not None and long.inside_ns is not None
        ]
        if len(accounts) == len(lives):
            return Measured(*named, max(0.0, round(100 * statistics.median(accounts), 3)))
        return Measured(*named, *self._compare_with_bare(entry, request))

    def _compare_with_bare(self, entry: Entry, request: Request) -> tuple[float, float]:
        """Return how much slower the workload is than bare, and how far that may be off, both in percent."""
        ratios: list[float] = []
        while True:
            for _ in range(_PAIRS):
                bare = self._run_bare(entry.family)
                ratios.append(self._run(entry, request, _PAIR_LIFE_S).round_ns / bare.round_ns)
            middle, off = compute_middle(ratios)
            if 100 * off <= GATE or len(ratios) >= _MOST_PAIRS:
                return round(100 * max(0.0, middle - 1), 3), round(100 * off, 3)

    def _run(self, entry: Entry, request: Request, life_s: float) -> Run:
        """Run a family's workload under a request. Raises RequestError with what omn said where it failed."""
        argv = self._make_argv(entry.family, life_s)
        plain: dict[str, Any] = {"program_stdout": "/dev/null"}
        if request.target == Target("system"):
            plain["launch"] = list(argv)
        else:
            request = attrs.evolve(request, target=Target("launch", argv))
        plain["requests"] = [make_plain_request(request)]
        session = self._folder / "session.json"
        session.write_text(json.dumps(plain))
        with counting_programs():
            document = run_omn("-f", str(session), "--format", "json")
        return attrs.evolve(
            self._read_result(),
            events=document["results"][0]["events_seen"],
            own_ns=document["cost"]["tool"]["window_cpu_ns"],
            inside_ns=document["cost"]["in_target"]["cpu_ns"],
        )

    def _run_bare(self, family: str) -> Run:
        subprocess.run(self._make_argv(family, _PAIR_LIFE_S), check=True)
        return self._read_result()

    def _read_result(self) -> Run:
        return Run(**json.loads((self._folder / "result.json").read_text()))

    def _make_argv(self, family: str, life_s: float = LIVES_S[-1]) -> tuple[str, ...]:
        return (sys.executable, "-S", workload.__file__, family, str(life_s), str(self._folder / "result.json"))


@contextlib.contextmanager
def counting_programs() -> Iterator[None]:
    """Have the kernel time programs in the way that omn looks for, which it never asks for itself."""
    before = _TIMED.read_text()
    _TIMED.write_text("1")
    try:
        yield
    finally:
        _TIMED.write_text(before)


def run_omn(*words: str) -> dict[str, Any]:
    """Run the command line here, where everything is imported, and return its document. Raises what it refused as."""
    written = [io.TextIOWrapper(io.BytesIO(), write_through=True) for _ in range(2)]
    with contextlib.redirect_stdout(written[0]), contextlib.redirect_stderr(written[1]):
        code = run_command(list(words))
    stdout, stderr = (stream.buffer.getvalue().decode() for stream in written)
    if code != 0:
        raise RequestError(stderr.partition("\n")[0].removeprefix("omn: "))
    document: dict[str, Any] = json.loads(stdout)
    return document

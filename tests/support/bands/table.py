"""The record of what mechanisms cost, and the catalog's bands held to it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import attrs
from ruamel.yaml import YAML

from omn_core.model.catalog import BANDS, Backend

CEILINGS = (0.1, 1.0, 5.0, 20.0, float("inf"))
"""Where each band of `BANDS` ends, in percent."""

BUSY = 10_000
"""Events a second of cpu from which a mechanism that costs little is cheap, and not only idle."""

RECORD = Path(__file__).parents[2] / "bench" / "bands.yaml"


@attrs.frozen
class Measured:
    """One mechanism in one mode: both shares in percent, and how far the second may be off.

    `events` is how many it had for each second of the workload's cpu time.
    """

    source: str
    backend: str
    mode: str
    target: str
    events: int
    own: float
    inside: float
    spread: float = 0.0

    @property
    def least(self) -> float:
        """What it costs at the least: the larger of the two, at the least that it may be."""
        return max(self.own, self.inside - self.spread)


@attrs.frozen
class Unmeasured:
    """One mechanism that could not be measured, and why."""

    source: str
    backend: str
    reason: str


Row: TypeAlias = Measured | Unmeasured


def find_band(percent: float) -> str:
    """Return the band that a share is in."""
    return next(band for band, ceiling in zip(BANDS, CEILINGS, strict=True) if percent < ceiling)


def compute_middle(values: Sequence[float]) -> tuple[float, float]:
    """Return the median and how far it may be off: the true one lies between with 95 % (by signs, whatever the noise).

    Six values at the least: of fewer no two have it between them so surely.
    """
    ordered, count = sorted(values), len(values)
    beyond, tail = 0, 1 / 2**count
    while 2 * (tail + math.comb(count, beyond + 1) / 2**count) <= 0.05:
        beyond += 1
        tail += math.comb(count, beyond) / 2**count
    middle = statistics.median(ordered)
    return middle, max(middle - ordered[beyond], ordered[-1 - beyond] - middle)


def group(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    """Return the rows of each mechanism of each source, in their order."""
    grouped: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        grouped.setdefault((row.source, row.backend), []).append(row)
    return grouped


def is_busy(rows: Iterable[Row]) -> bool:
    """Whether the workload gave a mechanism enough to do for its cost to say something of busier ones."""
    return any(isinstance(row, Measured) and row.events >= BUSY for row in rows)


def compute_least(rows: Iterable[Row]) -> float | None:
    """Return what a mechanism costs at the least in its dearest mode, None where none was measured."""
    return max((row.least for row in rows if isinstance(row, Measured)), default=None)


def iter_disagreements(chains: Mapping[str, Iterable[Backend]], rows: Iterable[Row]) -> Iterator[str]:
    """Yield a sentence for each mechanism whose declared band is not what was measured, and for what is on one side.

    A band must hold what was measured, and may be one above it, and more where the workload gave it little to hear:
    that is a busy program, not the busiest.
    """
    grouped = group(rows)
    collected = {(source, one.id): one for source, chain in chains.items() for one in chain if one.uncollected is None}
    for source, backend in sorted(grouped.keys() - collected.keys()):
        yield f"{source} {backend}: the record has it, and the catalog does not collect it"
    for (source, identifier), backend in collected.items():
        if (source, identifier) not in grouped:
            yield f"{source} {identifier}: the catalog collects it, and the record does not have it"
            continue
        least = compute_least(grouped[source, identifier])
        if least is not None:
            over = BANDS.index(backend.cost) - BANDS.index(find_band(least))
            if over < 0:
                yield f"{source} {identifier}: declares {backend.cost}, and costs {least:.3g} %"
            elif over > 1 and is_busy(grouped[source, identifier]):
                yield f"{source} {identifier}: declares {backend.cost}, and costs {least:.3g} % alone"


def read_record(path: Path = RECORD) -> list[Row]:
    """Read the record, in the order of the catalog."""
    rows: list[Row] = []
    for source, backends in YAML(typ="safe", pure=True).load(path.read_text()).items():
        for backend, modes in backends.items():
            if isinstance(modes, str):
                rows.append(Unmeasured(source, backend, modes))
                continue
            rows += [Measured(source, backend, mode, **figures) for mode, figures in modes.items()]
    return rows


def write_record(rows: Iterable[Row], path: Path = RECORD) -> None:
    """Write the record anew: of each source each mechanism, of that each mode, or why it was not measured."""
    plain: dict[str, dict[str, object]] = {}
    for (source, backend), of_backend in group(rows).items():
        plain.setdefault(source, {})[backend] = next(
            (row.reason for row in of_backend if isinstance(row, Unmeasured)),
            {
                row.mode: attrs.asdict(row, filter=lambda field, _: field.name not in ("source", "backend", "mode"))
                for row in of_backend
                if isinstance(row, Measured)
            },
        )
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style, yaml.sort_base_mapping_type_on_output = None, False  # type: ignore[assignment]
    yaml.width = 4096
    with path.open("w") as file:
        yaml.dump(plain, file)

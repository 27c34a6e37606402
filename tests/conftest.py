"""What every test of the tree shares: the published fixtures, and a laboratory of plugins made on the spot."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from omn_core.catalog.known import Known, read_known
from omn_core.catalog.load import load_catalog
from omn_core.model.catalog import Catalog
from omn_core.plugins import PluginRecord, Registry, discover
from omn_core.testing.distributions import write_distribution

LAB_PLUGIN = """
from omn_core.api import AVAILABLE, CollectorRow, NotCollected, Probe, RequirementRow, State, hookimpl

OMN_CONTRACT = "1.0"


@hookimpl
def omn_catalog():
    return "omn_lab"


@hookimpl
def omn_requirements():
    return [RequirementRow("lab", "omn_lab.plugin:probe", r"[a-z]+", "lab:available")]


@hookimpl
def omn_collectors():
    return [CollectorRow(source, backend, "omn_lab.plugin:nothing") for source, backend in COLLECTED]


def probe(need, context):
    if need.argument == "raising":
        raise RuntimeError("the probe fell over")
    if need.argument == "stale":
        raise NotCollected("it was built of other sources", "build it anew")
    state = State(need.argument)
    return AVAILABLE if state is State.AVAILABLE else Probe(state, f"it is {state.value}", f"mend {state.value}")


COLLECTED = {collected!r}
"""


class Laboratory:
    """A folder of distributions made for one test, first on `sys.path`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._modules: set[str] = set()

    def install(self, name: str, plugin: str, distribution: str | None = None, **files: str) -> None:
        """Install a plugin `name` in package omn_<name>: the text of its plugin.py, and files beside it."""
        package = f"omn_{name}"
        self._modules.add(package)
        texts = {f"{package}/__init__.py": "", f"{package}/plugin.py": textwrap.dedent(plugin)}
        texts |= {f"{package}/{path.replace('__', '.')}": textwrap.dedent(text) for path, text in files.items()}
        write_distribution(self.folder, distribution or f"omn-{name}", texts, entry_points={name: f"{package}.plugin"})

    def install_lab(self, catalog: str, collected: list[tuple[str, str]] | None = None) -> None:
        """Install the family `lab`: its catalog's text, and which (source, backend) pairs it collects."""
        self.install("lab", LAB_PLUGIN.replace("{collected!r}", repr(collected or [])), catalog__yaml=catalog)

    def discover(self, shipped: tuple[str, ...] = ("omn",)) -> Registry:
        """Discover what is installed, the laboratory's distributions among it."""
        self.forget()
        return discover(shipped)

    def load(self, shipped: tuple[str, ...] = ("omn",)) -> tuple[Registry, Catalog]:
        """Discover, and load the catalog."""
        registry = self.discover(shipped)
        return registry, load_catalog(registry)

    def forget(self) -> None:
        """Forget the modules that an earlier discovery imported."""
        for name in [name for name in sys.modules if name.partition(".")[0] in self._modules]:
            del sys.modules[name]


@pytest.fixture
def laboratory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Laboratory]:
    """A place to install plugins in, gone at the test's end; the cache is the test's own."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("OMN_CACHE_DIR", str(tmp_path / "cache"))
    made = Laboratory(folder)
    yield made
    made.forget()


def find_record(registry: Registry, name: str, distribution: str | None = None) -> PluginRecord:
    """Return a plugin's record."""
    return next(
        record for record in registry.records if record.name == name and distribution in (None, record.distribution)
    )


@pytest.fixture
def record_of() -> Any:
    """The function that finds a plugin's record in a registry."""
    return find_record


def render_entry(changes: Mapping[str, str] | None = None, chain: str | None = None) -> str:
    """Return the text of one valid entry `lab.depth`, some of its fields replaced or, by an empty text, left out."""
    fields = {
        "id": "lab.depth",
        "title": "how deep it is",
        "unit": "count",
        "value": "depth",
        "modes": "[poll, count]",
        "emits": "{poll: [summary, hist, raw, rate, topk], count: [count]}",
        "targets": "{launch: yes, pid: yes, system: yes, tid: 'no: a thread has no depth'}",
        "attributes": "{depth: count, share: ratio, comm: text}",
        "keys": "[task, cpu]",
        "filter_fields": "[comm, depth, share]",
        "determinism": "high",
        **(changes or {}),
    }
    head = "\n".join(f"  {name}: {value}" for name, value in fields.items() if value)
    backends = chain or "{id: first, requires: ['lab:available'], cost: free}"
    links = "\n".join(f"    - {backend}" for backend in backends.split("\n"))
    return f"- {head[2:]}\n  chain:\n{links}\n"


@pytest.fixture
def entry_text() -> Any:
    """The function that renders one catalog entry with changes."""
    return render_entry


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let omn know a distribution of this project's that is not installed: omn-shelf, of the source shelf.books."""
    known = Known({**read_known().distributions, "omn-shelf": {"sources": ("shelf.books",)}})
    monkeypatch.setattr("omn_core.resolve.complete.read_known", lambda: known)

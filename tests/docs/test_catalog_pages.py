"""The catalog as it is printed, in the manual and by `omn catalog`, is the catalog."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs
import pytest
from manual import DOCS

from omn_core.catalog.known import read_known
from omn_core.catalog.load import load_catalog
from omn_core.catalog.shape import WrittenDefault, WrittenEntry, make_catalog_converter, make_default, make_entry
from omn_core.located import Located, parse_yaml
from omn_core.model.catalog import Catalog, Entry
from omn_core.plugins import Registry
from omn_core.structure import structure

pytestmark = pytest.mark.spec("CAT-9")


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    """The script that writes the pages."""
    spec = importlib.util.spec_from_file_location("generate_catalog", DOCS / "generate_catalog.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def shipped(catalog: Catalog) -> list[Entry]:
    """The entries of the distributions that ship with omn."""
    names = read_known().distributions
    return [entry for entry in catalog.entries.values() if catalog.distributions[entry.id] in names]


def test_the_pages_are_those_the_catalog_makes(generator: Any, catalog: Catalog, registry: Registry) -> None:
    """Every page under docs/catalog is what the generator makes now, and there is no other."""
    made = generator.render_pages(catalog, registry)
    written = {path.name: path.read_text() for path in (DOCS / "catalog").glob("*.md")}
    assert written.keys() == made.keys()
    for name, text in made.items():
        assert written[name] == text, f"docs/catalog/{name} is stale: run `python docs/generate_catalog.py`"


def test_a_page_says_everything_of_its_sources(shipped: list[Entry]) -> None:
    """Each source has its section, with each refusal, caveat, attribute and requirement, and what is uncollected."""
    assert shipped
    for entry in shipped:
        page = (DOCS / "catalog" / f"{entry.family}.md").read_text()
        section = page.partition(f"\n## {entry.id}\n")[2].partition("\n## ")[0].replace("\\|", "|")
        needs = [need.text for backend in entry.chain for need in backend.requires]
        said = [backend.uncollected or backend.degrades or backend.id for backend in entry.chain]
        reasons = [f"no: {reason}" for reason in entry.targets.values() if reason is not None]
        for text in (*entry.attributes, *entry.keys, *map(str, entry.caveats), *reasons, *needs, *said):
            assert text in section, (entry.id, text)


def test_an_entry_is_printed_so_that_it_loads_back_equal(omn: Any, registry: Registry, catalog: Catalog) -> None:
    """`omn catalog SOURCE` is YAML that makes the same entry again, whatever the entry leaves out."""
    converter = make_catalog_converter(registry.requirements)
    printed = parse_yaml(omn("catalog").stdout.decode()).value
    assert [plain["id"] for plain in printed if "id" in plain] == list(catalog.entries)
    assert [plain["default"] for plain in printed if "id" not in plain] == list(catalog.defaults)
    for plain in printed:
        if "id" in plain:
            entry = catalog.entries[plain["id"]]
            written = structure(converter, Located(plain), WrittenEntry)
            assert make_entry(written, entry.path, entry.line) == entry
        else:
            default = catalog.defaults[plain["default"]]
            assert (
                make_default(structure(converter, Located(plain), WrittenDefault), default.path, default.line)
                == default
            )


def test_a_family_is_printed_as_a_folder_that_stands_in_for_it(
    omn: Any, registry: Registry, catalog: Catalog, shipped: list[Entry], tmp_path: Path
) -> None:
    """What is printed passes every check of the loader and serves as `--catalog DIR`."""
    for family in {entry.family for entry in shipped}:
        (tmp_path / f"{family}.yaml").write_bytes(omn("catalog", family).stdout)
    loaded = load_catalog(registry, tmp_path)
    for entry in shipped:
        again = loaded.entries[entry.id]
        assert attrs.evolve(again, path=entry.path, line=entry.line) == entry
    for family in {entry.family for entry in shipped} & set(catalog.defaults):
        default = catalog.defaults[family]
        assert attrs.evolve(loaded.defaults[family], path=default.path, line=default.line) == default

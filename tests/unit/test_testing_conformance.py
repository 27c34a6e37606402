"""The conformance kit: a good plugin passes, and each way of breaking a contract is named on a line of its own."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from omn_core.catalog.load import load_catalog
from omn_core.errors import RequestError
from omn_core.plugins import discover
from omn_core.testing.checks import imports
from omn_core.testing.conformance import CHECKS, Report, check_distribution
from omn_core.testing.distributions import write_distribution

PLUGIN = """
from omn_core.api import CollectorRow, EmitRow, RequirementRow, TargetRow, hookimpl

OMN_CONTRACT = "1.0"

@hookimpl
def omn_catalog():
    return "omn_{name}"

@hookimpl
def omn_collectors():
    return [CollectorRow("{name}.things", "fs:things", "omn_{name}.things:Things")]

@hookimpl
def omn_requirements():
    return [RequirementRow("{name}", "omn_{name}.things:probe", argument="[a-z]+", example="{name}:any")]

@hookimpl
def omn_emits():
    return [EmitRow("{name}_mean", "omn_{name}.things:MEAN")]
"""

THINGS = """
from omn_core.api import AVAILABLE, Batch, CollectorBase

class Things(CollectorBase):
    def attach(self, target):
        pass

    def sample(self, now_ns):
        return Batch.empty()

def probe(need, context):
    return AVAILABLE

class Mean:
    def compute(self, series, spec):
        values = series.values.tolist()
        return {"lower_bound": series.lower_bound, "mean": sum(values) / len(values) if values else None}

    def render(self, answer, unit, style):
        return ["nothing" if answer["mean"] is None else f"{answer['mean']:.2f}"]

MEAN = Mean()
"""

CATALOG = """
- id: {name}.things
  title: Things
  unit: count
  value: things
  modes: [poll]
  emits: {{poll: [summary, {name}_mean]}}
  targets: {{system: yes}}
  attributes: {{things: count, comm: text}}
  keys: []
  filter_fields: [things]
  determinism: high
  chain:
    - {{id: "fs:things", requires: ["{name}:any"], cost: free}}
    - {{id: "bpf:things", requires: [tool-free], cost: low, equivalent: true, uncollected: not written yet}}
"""

MOON = """
@hookimpl
def omn_targets():
    return [TargetRow("moon", "omn_{name}.things:probe")]

"""

Check = Callable[..., Report]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of sys.path to install distributions into; what was imported from it is forgotten at the end."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("OMN_CACHE_DIR", str(tmp_path / "cache"))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def check(site: Path) -> Check:
    """Install a distribution from parts, broken as the test likes, and run the kit on it."""

    def run(
        name: str = "good",
        plugin: str = PLUGIN,
        things: str = THINGS,
        catalog: str = CATALOG,
        readme: str = "# omn-{name}\n\n## {name}.things\n",
        entry_point: str = "omn_{name}.plugin",
    ) -> Report:
        parts = {"__init__.py": "", "plugin.py": plugin, "things.py": things, "catalog.yaml": catalog}
        files = {f"omn_{name}/{path}": fill(text, name) for path, text in parts.items()}
        entry_points = {name: fill(entry_point, name)}
        write_distribution(site, f"omn-{name}", files, entry_points=entry_points, readme=fill(readme, name))
        importlib.invalidate_caches()
        registry = discover()
        return check_distribution(f"omn_{name}", registry, load_catalog(registry))

    return run


def fill(text: str, name: str) -> str:
    return text.replace("{name}", name).replace("{{", "{").replace("}}", "}")


def broken(report: Report, name: str) -> tuple[str, ...]:
    return next(check.broken for check in report.checks if check.name == name)


@pytest.mark.spec("PLG-5")
def test_a_good_plugin_breaks_nothing(check: Check) -> None:
    """Every check ran and found nothing, and the report says so in text and in plain values."""
    report = check()
    assert report.broken == ()
    assert report.passed
    assert [one.name for one in report.checks] == [name for name, _, _ in CHECKS]
    assert report.to_plain()["passed"] is True
    assert report.render()[0] == "omn-good 1.0: good"


@pytest.mark.parametrize("title", ["things", "Things."])
def test_a_title_of_another_style_is_named(check: Check, title: str) -> None:
    """Lists and pages show titles beside each other: a capital letter first, and no final stop."""
    (line,) = broken(check(catalog=CATALOG.replace("title: Things", f"title: {title}")), "titles")
    assert line.endswith(f"not {title!r}")


@pytest.mark.spec("PLG-5", "PLG-4")
def test_a_plugin_that_raises_on_import_is_named_with_its_reason(check: Check) -> None:
    """The kit does not raise: the line says what importing said."""
    report = check(plugin="import nowhere_to_be_found\n")
    assert not report.passed
    (line,) = broken(report, "load")
    assert line.startswith("good is failed: ")
    assert "No module named 'nowhere_to_be_found'" in line


@pytest.mark.spec("PLG-3")
def test_a_slow_plugin_is_named_with_its_cost(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    """An import that sleeps is over the budget in every try, and one that imports collector code says which."""
    monkeypatch.setattr(imports, "_TRIES", 2)
    report = check(plugin="import time\ntime.sleep(0.05)\nimport omn_{name}.things\n" + PLUGIN)
    lines = broken(report, "cost")
    assert lines[0].startswith("importing omn_good.plugin took ")
    assert lines[0].endswith("its budget is 2 ms")
    assert "importing omn_good.plugin imports omn_good.things, which its rows only name" in lines


@pytest.mark.spec("PLG-3")
def test_a_plugin_that_imports_numpy_is_named(check: Check) -> None:
    """numpy alone is forty times the budget."""
    assert "importing omn_good.plugin imports numpy" in broken(check(plugin="import numpy\n" + PLUGIN), "cost")


@pytest.mark.spec("PLG-4")
def test_two_plugins_that_claim_one_source_are_both_named(check: Check, site: Path) -> None:
    """The duplicate's line names the source and both sides."""
    twin = {"omn_twin/__init__.py": "", "omn_twin/plugin.py": fill(PLUGIN, "other")}
    write_distribution(site, "omn-twin", twin, entry_points={"twin": "omn_twin.plugin"})
    lines = broken(check("other"), "load")
    both = "is claimed by other (omn-other) and twin (omn-twin)"
    assert f"other is clash: collector other.things/fs:things {both}" in lines
    assert f"other is clash: requirement class other {both}" in lines
    assert "other is clash: neither is used" in lines


@pytest.mark.parametrize(
    ("change", "name", "expected"),
    [
        (("plugin", 'OMN_CONTRACT = "1.0"', "OMN_CONTRACT = 1"), "contract", "OMN_CONTRACT is 1; this core's is '1.0'"),
        (
            ("plugin", 'OMN_CONTRACT = "1.0"', 'OMN_CONTRACT = "7.0"'),
            "contract",
            "it was written for contract 7.0, and this core has 1.0",
        ),
        (
            ("plugin", "@hookimpl\ndef omn_emits", "def omn_emits"),
            "hooks",
            "omn_emits carries no @hookimpl, so nothing calls it",
        ),
        (
            ("plugin", "    return [EmitRow(", "    return [1, EmitRow("),
            "hooks",
            "omn_emits row 0 is 1, not a EmitRow",
        ),
        (
            ("plugin", 'MEAN")]', 'MEAN", adds_up="yes")]'),
            "hooks",
            "omn_emits row 'good_mean' has adds_up='yes', not of its type",
        ),
        (
            ("plugin", "    return [RequirementRow(", "    raise KeyError('x')\n    return [RequirementRow("),
            "hooks",
            "omn_requirements raised KeyError: 'x'",
        ),
        (
            ("plugin", "things:Things", "things:Thongs"),
            "references",
            "collectors row 'good.things/fs:things' names 'omn_good.things:Thongs': AttributeError: module",
        ),
        (
            ("things", "def sample(self, now_ns)", "def sample(self)"),
            "collectors",
            "good.things/fs:things: omn_good.things:Things cannot be called as sample(now_ns): too many",
        ),
        (
            ("things", "(CollectorBase)", ""),
            "collectors",
            "good.things/fs:things: omn_good.things:Things has no facts()",
        ),
        (
            (
                "things",
                "class Things(CollectorBase):",
                "class Things(CollectorBase):\n    def __init__(self, x): pass\n",
            ),
            "collectors",
            "good.things/fs:things: omn_good.things:Things() raised TypeError: Things.__init__() missing 1",
        ),
        (
            ("catalog", ", uncollected: not written yet", ""),
            "catalog",
            "good.things/bpf:things has no collector, and its catalog does not say why (uncollected)",
        ),
        (
            ("catalog", "cost: free", "cost: free, uncollected: because"),
            "catalog",
            "good.things/fs:things is collected, and its catalog says it is not: because",
        ),
        (
            ("plugin", 'example="{name}:any"', 'example="{name}:1"'),
            "requirements",
            "the requirement class 'good' gives 'good:1', which is not of its own form",
        ),
        (
            ("things", "    return AVAILABLE", "    return True"),
            "requirements",
            "good: the probe of 'good:any' returned True, not a Probe",
        ),
        (
            ("things", "    return AVAILABLE", "    raise OSError('broken')"),
            "requirements",
            "good: the probe of 'good:any' raised OSError: broken",
        ),
        (
            ("things", "if values else None", ""),
            "emits",
            "good_mean over no event of good.things: it raised ZeroDivisionError: division by zero",
        ),
        (
            ("things", "series.values.tolist()", "series.values"),
            "emits",
            "good_mean over few of good.things: it raised ValueError: The truth value of an array",
        ),
        (
            ("things", '"lower_bound": series.lower_bound', '"lower_bound": False'),
            "emits",
            "good_mean over few of good.things: it answers lower_bound=False over a series whose own is True",
        ),
        (
            ("things", "sum(values) / len(values)", "series.values.sum()"),
            "emits",
            "good_mean over few of good.things: its answer holds more than plain values: Object of type int64",
        ),
        (
            ("things", "        values =", "        series.batch.ts[:] = 0\n        values ="),
            "emits",
            "good_mean over few of good.things: it raised ValueError: assignment destination is read-only",
        ),
        (
            ("things", '["nothing"', '["nothing " * 9'),
            "emits",
            None,
        ),
        (("readme", "## {name}.things", "things"), "readme", "its README has no section for good.things"),
        (("readme", "# omn-{name}\n\n## {name}.things\n", ""), "readme", "its metadata holds no README"),
        (
            ("entry_point", "omn_{name}.plugin", "omn_{name}.things"),
            "entry-point",
            "the entry point 'good' names 'omn_good.things', not a module called plugin",
        ),
        (
            ("things", "class Things", "import omn_core.cache\n\nclass Things"),
            "public-names",
            "omn_good/things.py:4 imports omn_core.cache; only omn_core.api is public",
        ),
        (
            ("plugin", "@hookimpl\ndef omn_emits", MOON + "@hookimpl\ndef omn_emits"),
            "targets",
            "'moon' is no kind of target; the kinds are ",
        ),
    ],
)
@pytest.mark.spec("PLG-5")
def test_each_broken_line_is_named(check: Check, change: tuple[str, str, str], name: str, expected: str | None) -> None:
    """What was broken, where, and nothing in the other direction: the same plugin without the change passes."""
    part, old, new = change
    whole = {
        "plugin": PLUGIN,
        "things": THINGS,
        "catalog": CATALOG,
        "readme": "# omn-{name}\n\n## {name}.things\n",
        "entry_point": "omn_{name}.plugin",
    }
    assert old in whole[part]
    report = check(**{part: whole[part].replace(old, new)})
    lines = broken(report, name)
    if expected is None:
        assert any("with spaces at its end" in line for line in lines), report.broken
    else:
        assert any(line.startswith(expected) for line in lines), report.broken
    assert not report.passed


@pytest.mark.spec("PLG-5")
def test_a_distribution_without_a_plugin_is_the_requests_mistake() -> None:
    """The name is quoted and those that could be meant are listed."""
    registry = discover()
    with pytest.raises(RequestError, match="no installed plugin comes from the distribution 'requests'"):
        check_distribution("requests", registry, load_catalog(registry))


@pytest.mark.spec("PLG-5")
def test_the_core_keeps_its_own_contracts() -> None:
    """What the core registers for itself is held to the same hooks, references and emits as anybody's."""
    registry = discover()
    report = check_distribution("omn", registry, load_catalog(registry))
    assert report.broken == ()

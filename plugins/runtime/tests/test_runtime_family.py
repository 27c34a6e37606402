"""The family as omn sees it: the conformance kit, its chains, and what is refused to whom."""

from __future__ import annotations

import pytest
from another_user import run_as_another_user

from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry
from omn_core.testing.conformance import check_distribution
from omn_core.testing.fixtures import Command


@pytest.mark.spec("PLG-3", "CAT-1", "CAT-2")
def test_the_family_keeps_the_contracts(registry: Registry, catalog: Catalog) -> None:
    """The conformance kit finds no broken line."""
    assert check_distribution("omn-runtime", registry, catalog).broken == ()


@pytest.mark.spec("CAT-1", "RTM-1")
def test_what_is_not_collected_says_why(catalog: Catalog, registry: Registry) -> None:
    """Every source that the family is known by is declared; a backend has a collector or a reason."""
    names = {"func", "custom", "gc", "python", "go", "java", "node"}
    entries = {entry.id: entry for entry in catalog.entries.values() if entry.family == "runtime"}
    assert entries.keys() == {f"runtime.{name}" for name in names}
    for entry in entries.values():
        for backend in entry.chain:
            assert bool(backend.uncollected) != ((entry.id, backend.id) in registry.collectors)


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("runtime.java", "-e", "raw", "--", "true"), 3, "USDT"),
        (("runtime", "--", "true"), 2, "a program's functions are timed where they are named"),
    ],
)
def test_what_is_declared_alone_is_refused_by_its_reason(
    omn: Command, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    """As this build's gap, or with how to ask."""
    ran = omn(*arguments)
    assert (ran.code, sentence in " ".join(ran.stderr.split())) == (code, True), ran.stderr


@pytest.mark.spec("RES-1")
def test_who_may_load_no_program_is_told_so() -> None:
    """Restricted, not absent: with what would lift it."""
    said = run_as_another_user(
        "import contextlib, io, os, tempfile\nfrom omn_core.cli import entry\n",
        """
        os.environ["OMN_CACHE_DIR"] = tempfile.mkdtemp()
        with contextlib.redirect_stderr(io.StringIO()) as said:
            code = entry.main(["runtime.func", "--filter", "function == 'main'", "--", "true"])
        print(code, "CAP_" in said.getvalue())
        """,
    )
    assert said.split()[:2] == ["1", "True"]

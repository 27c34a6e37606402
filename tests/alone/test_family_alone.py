"""One family beside the core and the kernel plugin: every source of it lists, and it measures."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.spec("PLG-2")


def test_the_family_is_whole_without_the_others(omn: Any) -> None:
    """Every plugin is loaded whole, exactly one family has sources, and what nobody collects of it says why."""
    plugins = omn("plugins", "--format", "json").document["plugins"]
    assert {plugin["state"] for plugin in plugins} == {"loaded"}
    families = [plugin["name"] for plugin in plugins if plugin["sources"]]
    assert len(families) == 1
    listed = omn("list", "--format", "json").document["sources"]
    assert {source["family"] for source in listed} == set(families)
    assert any(backend["collected"] for source in listed for backend in source["backends"])
    assert all(b["collected"] or "not collected:" in b["reason"] for source in listed for b in source["backends"])


def test_the_family_measures_a_program(omn: Any) -> None:
    """A source of it that serves a program runs to a document; one whose mechanism for it is not built refuses so.

    A family of the machine alone measures that while the program runs.
    """
    listed = [
        source
        for source in omn("list", "--usable", "--format", "json").document["sources"]
        if "poll" in source["modes"] and "summary" in source["emits"]["poll"]
    ]
    of_programs = [source["id"] for source in listed if "launch" in source["targets"]]
    of_machine = [source["id"] for source in listed if "system" in source["targets"]]
    if not listed:
        pytest.skip("this machine serves nothing of the family")
    asked = ("-m", "poll", "-e", "summary", "--interval", "20ms", "--format", "json")
    for source in of_programs or of_machine:
        target = () if of_programs else ("--system",)
        ran = omn(source, *asked, *target, "--", "sleep", "0.2")
        if ran.code != 3 and (ran.code or ran.result["events_seen"]):
            break
    assert ran.code == 0, ran.stderr
    assert ran.document["program"]["exit"] == {"code": 0}
    assert ran.result["events_seen"] >= 1


@pytest.mark.spec("PLG-7")
def test_a_format_of_another_distribution_names_it(omn: Any) -> None:
    """The writers of other tools' formats are not installed here: the build's gap, whatever is asked."""
    source = omn("list", "--format", "json").document["sources"][0]["id"]
    ran = omn(source, "--format", "pprof", "--", "true")
    assert ran.code == 3
    assert "install omn-export to have it" in ran.stderr

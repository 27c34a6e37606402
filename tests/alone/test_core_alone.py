"""The core with no family installed: it says how to get one, and refuses by name what it does not have."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.spec("PLG-1", "PLG-2", "PLG-7")


def test_the_listing_says_how_to_get_a_family(omn: Any) -> None:
    """With nothing to list, every distribution that brings sources is named."""
    ran = omn("list")
    text = ran.stdout.decode()
    assert ran.code == 0
    assert "No family is installed" in text
    families = ("cpu", "mem", "io", "net", "sched", "proc", "gpu", "power", "runtime")
    for distribution in (f"omn-{family}" for family in families):
        assert distribution in text


def test_a_listing_as_json_is_empty(omn: Any) -> None:
    """The listing's shape stands with nothing in it."""
    assert omn("list", "--format", "json").document == {"sources": [], "defaults": [], "walks": []}


@pytest.mark.parametrize(
    ("arguments", "distribution"),
    [
        (("mem.rss", "--", "true"), "omn-mem"),
        (("sched.offcpu", "-e", "stack", "--", "true"), "omn-sched"),
        (("latency", "tail", "--", "true"), "omn-triage"),
        (("top",), "omn-top"),
        (("agent", "record", "--", "true"), "omn-agent"),
    ],
)
def test_a_known_word_names_what_to_install(omn: Any, arguments: tuple[str, ...], distribution: str) -> None:
    """A source or a command of a distribution that is not installed is the build's gap, and names it."""
    ran = omn(*arguments)
    assert ran.code == 3
    assert f"install {distribution} to have it" in ran.stderr


def test_only_the_core_is_a_plugin_here(omn: Any) -> None:
    """`omn plugins` shows the core's own emits, formats and commands, and nothing else."""
    (plugin,) = omn("plugins", "--format", "json").document["plugins"]
    assert (plugin["name"], plugin["distribution"], plugin["state"]) == ("core", "omn", "loaded")
    assert {"count", "summary", "hist", "rate", "topk", "raw", "timeline", "stack"} == set(plugin["emits"])

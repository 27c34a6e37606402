"""The family as omn sees it: the conformance kit, and a run from the command line."""

from __future__ import annotations

import subprocess
import sys

import pytest
from redis_server import Server

from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry
from omn_core.testing.conformance import check_distribution
from omn_core.testing.fixtures import Command


@pytest.mark.spec("PLG-5", "PLG-9")
def test_the_family_keeps_the_contracts(registry: Registry, catalog: Catalog) -> None:
    """The conformance kit finds no broken line."""
    assert check_distribution("omn-redis", registry, catalog).broken == ()


@pytest.mark.spec("PLG-5", "PLG-10", "EMT-4")
def test_the_command_line_serves_the_family_like_any_other(omn: Command, server: Server) -> None:
    """A unit, a key and an emit of the family's own reach the document."""
    server.call("SET", "key", "value")
    ran = omn(
        *["redis.lookups", "--pid", str(server.process.pid), "-m", "poll", "-e", "hit_ratio", "-e", "summary"],
        *["-d", "300ms", "--interval", "100ms", "--format", "json"],
    )
    assert ran.code == 0, ran.stderr
    assert ran.result["unit"] == "redis.ops"
    emits = ran.result["series"][0]["emits"]
    assert emits["hit_ratio"] == {"lower_bound": False, "hits": 0, "misses": 0, "ratio": None}
    assert emits["summary"]["total"] == 0


@pytest.mark.spec("PLG-10")
def test_a_process_that_is_no_server_is_the_machines_refusal(omn: Command) -> None:
    """The refusal names what was looked for, and nothing ran."""
    with subprocess.Popen([sys.executable, "-S", "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as other:
        ran = omn("redis.memory", "--pid", str(other.pid), "-d", "100ms", "--format", "json")
        other.communicate()
    assert ran.code == 1
    assert "listens on no TCP port" in ran.stderr
    assert ran.stderr.splitlines()[-1] == "omn: this machine refused the request; nothing ran"

"""What this family hands over. Nothing of its collectors is imported here."""

from __future__ import annotations

from omn_core.api import CollectorRow, EmitRow, RequirementRow, hookimpl

OMN_CONTRACT = "1.0"


@hookimpl
def omn_catalog() -> str:
    """Return this package: `catalog.yaml` lies beside this module."""
    return "omn_redis"


@hookimpl
def omn_collectors() -> list[CollectorRow]:
    """Return the three sources, each through the section of INFO that holds it."""
    return [
        CollectorRow("redis.commands", "redis:info:commandstats", "omn_redis.commands:Commands"),
        CollectorRow("redis.memory", "redis:info:memory", "omn_redis.memory:Memory"),
        CollectorRow("redis.lookups", "redis:info:stats", "omn_redis.lookups:Lookups"),
    ]


@hookimpl
def omn_requirements() -> list[RequirementRow]:
    """Return the requirement class this family answers: `redis:resp`, a server can be found and spoken to."""
    return [RequirementRow("redis", "omn_redis.probes:probe_redis", argument="resp", example="redis:resp")]


@hookimpl
def omn_emits() -> list[EmitRow]:
    """Return the share of lookups that found their key."""
    return [EmitRow("hit_ratio", "omn_redis.hit_ratio:HIT_RATIO", "the share of lookups that found their key")]

"""What the net family hands over. Nothing of its collectors is imported here."""

from __future__ import annotations

from omn_core.api import CollectorRow, hookimpl

OMN_CONTRACT = "1.0"


@hookimpl
def omn_catalog() -> str:
    """Return this package: `catalog.yaml` lies beside this module."""
    return "omn_net"


@hookimpl
def omn_collectors() -> list[CollectorRow]:
    """Return what this family collects."""
    return [
        CollectorRow("net.bytes", "nl:route:link", "omn_net.traffic:Bytes"),
        CollectorRow("net.bytes", "fs:sys:statistics", "omn_net.traffic:Bytes"),
        CollectorRow("net.packets", "nl:route:link", "omn_net.traffic:Packets"),
        CollectorRow("net.packets", "fs:sys:statistics", "omn_net.traffic:Packets"),
        CollectorRow("net.errors", "nl:route:link", "omn_net.traffic:Errors"),
        CollectorRow("net.errors", "fs:sys:statistics", "omn_net.traffic:Errors"),
        CollectorRow("net.iface", "nl:route:link", "omn_net.failures:Failures"),
        CollectorRow("net.iface", "fs:sys:statistics", "omn_net.failures:Failures"),
    ]

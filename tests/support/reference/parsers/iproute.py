"""iproute2: ip."""

from __future__ import annotations

import json

from reference.parsing import Figures, UnreadableError

_COUNTERS = ("bytes", "packets", "errors", "dropped")


def parse_link(text: str) -> Figures:
    """Read `ip -s -j link`: each interface's counters, `eth0.tx_bytes`."""
    try:
        return {
            f"{link['ifname']}.{way}_{counter}": link["stats64"][way][counter]
            for link in json.loads(text)
            for way in ("rx", "tx")
            for counter in _COUNTERS
        }
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableError(f"no links of ip: {error!r}") from error

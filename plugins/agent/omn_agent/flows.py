"""Flow ids: what connects two events of a recording."""

from __future__ import annotations

import hashlib

_DELEGATION = "pi.delegation.first-prompt:"


def compute_delegation_flow(child_session: str) -> int:
    """Return the flow from a launch of a child to the child's first input.

    The first eight bytes, little-endian, of the SHA-256 of a constant and the child's id in lower case; 0 becomes 1.
    The contract gives it for Pi's UUIDs; here it serves every harness, whose child ids need not be UUIDs.
    """
    return _take(_DELEGATION + child_session.lower())


def compute_flow(*parts: object) -> int:
    """Return a flow id of a recording's own, the same whenever it is computed."""
    return _take("\0".join(map(str, parts)))


def _take(text: str) -> int:
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "little") or 1

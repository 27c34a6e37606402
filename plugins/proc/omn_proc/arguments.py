"""A program's arguments as the kernel keeps them: one after the other, each ending in a zero byte."""

from __future__ import annotations

MOST_BYTES = 4096
"""How much is shown of a program's arguments."""


def spell_arguments(content: bytes) -> bytes | None:
    """Spell arguments separated by spaces, the first 4096 bytes of them; None where there are none."""
    return content.rstrip(b"\0").replace(b"\0", b" ")[:MOST_BYTES] or None

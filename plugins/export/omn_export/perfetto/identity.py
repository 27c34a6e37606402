"""Ids that are the same whenever they are computed: a track's uuid, the id of a machine's boot."""

from __future__ import annotations

import hashlib

_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3
_UINT64 = (1 << 64) - 1
_UINT32 = (1 << 32) - 1


def compute_uuid(*parts: object) -> int:
    """Return the track uuid of a name in parts: 64 bits, never 0, which Perfetto takes for the default track."""
    text = "\0".join(map(str, parts)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") or 1


def compute_machine_id(boot: str) -> int:
    """Return the machine id of a boot id: the low 32 bits of its FNV-1a hash, 1 in place of 0.

    Perfetto derives its own in this way; 0 is the id of a machine that nobody named.
    """
    found = _FNV_OFFSET
    for byte in boot.encode():
        found = ((found ^ byte) * _FNV_PRIME) & _UINT64
    return found & _UINT32 or 1

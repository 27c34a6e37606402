"""The note that names a build, of a file or of the running kernel."""

from __future__ import annotations

import struct

_NT_GNU_BUILD_ID = 3


def parse_build_id(content: bytes, order: str = "<") -> str | None:
    """Parse notes for the one that GNU tools write a build id into, None where they hold none."""
    position = 0
    header = struct.Struct(order + "III")
    while position + header.size <= len(content):
        name_size, size, kind = header.unpack_from(content, position)
        name_at = position + header.size
        body_at = name_at + (name_size + 3 & ~3)
        if kind == _NT_GNU_BUILD_ID and content[name_at : name_at + name_size] == b"GNU\0" and size:
            body = content[body_at : body_at + size]
            return body.hex() if len(body) == size else None
        position = body_at + (size + 3 & ~3)
    return None

"""fio: the account a job keeps of its own transfers."""

from __future__ import annotations

import json

from reference.parsing import Figures, UnreadableError


def parse_fio(text: str) -> Figures:
    """Read `--output-format=json` of one job: `read.bytes`, `read.requests`, `write.bytes`, `write.requests`."""
    start = text.find("{")
    try:
        (job,) = json.loads(text[start:])["jobs"]
    except (ValueError, KeyError) as error:
        raise UnreadableError(f"no jobs of fio: {error}") from error
    return {
        f"{way}.{name}": job[way][field]
        for way in ("read", "write")
        for name, field in (("bytes", "io_bytes"), ("requests", "total_ios"))
    }

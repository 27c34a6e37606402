"""The verdicts of the last recorded run: `docs/replaces/recorded.json`, which the manual's page is made of."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reference.verdict import Verdict

RECORD = Path(__file__).parents[3] / "docs" / "replaces" / "recorded.json"


def read_record(path: Path = RECORD) -> dict[str, dict[str, Any]]:
    """Return what was recorded of each pair, by its id; nothing where no run was."""
    if not path.exists():
        return {}
    record: dict[str, dict[str, Any]] = json.loads(path.read_text())
    return record


def write_record(path: Path, verdicts: Sequence[Verdict]) -> None:
    """Write verdicts beside those that the file has of other pairs."""
    record = read_record(path) | {verdict.pair.id: _make_plain(verdict) for verdict in verdicts}
    path.write_text(json.dumps(dict(sorted(record.items())), indent=1) + "\n")


def _make_plain(verdict: Verdict) -> Mapping[str, Any]:
    return {
        "state": verdict.state.value,
        "omn": verdict.omn,
        "tool": verdict.tool,
        "reason": verdict.reason,
        "version": read_version(verdict.pair.tool.package),
        "kernel": ".".join(platform.release().split("-")[0].split(".")[:2]),
    }


def read_version(package: str) -> str | None:
    """Return the version of a Debian package, None where it is not installed or nothing is a package here."""
    if shutil.which("dpkg-query") is None:
        return None
    done = subprocess.run(["dpkg-query", "-W", "-f=${Version}", package], capture_output=True, text=True)
    return done.stdout.strip() or None

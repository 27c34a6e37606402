"""Distributions made on the spot, to see what the core and the conformance kit make of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from omn_core.hookspecs import GROUP


def write_distribution(
    folder: Path,
    name: str,
    files: Mapping[str, str],
    *,
    entry_points: Mapping[str, str],
    readme: str = "",
) -> None:
    """Install a distribution into a folder of `sys.path`: its files by path, its plugins, and its metadata.

    `entry_points` maps a plugin's name to its module. What was in the files' places is overwritten.
    """
    for path, text in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    metadata = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir(exist_ok=True)
    header = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nDescription-Content-Type: text/markdown\n"
    (metadata / "METADATA").write_text(f"{header}\n{readme}")
    lines = "".join(f"{plugin} = {module}\n" for plugin, module in entry_points.items())
    (metadata / "entry_points.txt").write_text(f"[{GROUP}]\n{lines}")

"""What a guest's firmware says of its processors: clocks that can be set, and heat that comes of a fast one.

QEMU's own says nothing of either, so that the kernel has no driver for them. A table of ACPI's, added to QEMU's, does:
`clocks.asl`, compiled by ACPICA's compiler.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from vms.kernels import Unreachable

_SOURCE = Path(__file__).with_name("clocks.asl")


def build_clocks(folder: Path) -> Path:
    """Compile the table into a folder, and return its path. Raises Unreachable where there is no compiler."""
    program = shutil.which("iasl")
    if program is None:
        raise Unreachable("iasl is not installed here (Debian's acpica-tools)")
    table = folder / "clocks.aml"
    subprocess.run([program, "-p", str(table.with_suffix("")), str(_SOURCE)], check=True, capture_output=True)
    return table

"""What `omn list` loads: it asks the machine about every mechanism, and reads nothing in columns."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_nothing_heavy_is_imported_to_list(tmp_path: Path) -> None:
    """Neither numpy nor a collector, whatever the probes ask."""
    program = (
        "import sys; from omn_core.cli.entry import main; assert main(['list']) == 0; "
        "print(sorted({'numpy', 'rich', 'ruamel.yaml', 'omn_kernel.polling'} & set(sys.modules)), file=sys.stderr)"
    )
    environment = {"OMN_CACHE_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    for _ in range(2):  # the first writes the catalog's cache
        ran = subprocess.run(
            [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True, env=environment
        )
    assert ran.stderr == "[]\n"

"""Running a test's code as a user who owns nothing."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

_BECOME = """
import os
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
"""


def run_as_another_user(imports: str, code: str) -> str:
    """Run code as nobody, after imports made as oneself, and return what it printed.

    Skips the test where that user cannot import what the code imports itself: this installation is closed to him. Any
    other error is the test's. Who is not root runs it as who he is.
    """
    source = textwrap.dedent(imports) + _BECOME + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
    last = done.stderr.strip().rpartition("\n")[2]
    if last.startswith(("ImportError", "ModuleNotFoundError")):
        pytest.skip(f"another user cannot import this installation: {last}")
    assert done.returncode == 0, done.stderr
    return done.stdout

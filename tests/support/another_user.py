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

    Skips the test where that user cannot run this installation. Who is not root runs it as who he is.
    """
    source = textwrap.dedent(imports) + _BECOME + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"another user cannot run this installation: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout

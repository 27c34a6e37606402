"""Fixtures that skip a test where no program can be loaded into the kernel."""

from __future__ import annotations

import os

import pytest


@pytest.fixture
def loads_programs() -> None:
    """Skip where this process may load no program into the kernel."""
    # Of a plugin that the core alone does not have.
    from omn_kernel.privileges import read_privileges

    if not read_privileges("/").has("bpf"):
        pytest.skip("this process is without CAP_BPF")


@pytest.fixture
def loads_typed_programs(loads_programs: None) -> None:
    """Skip where it may not, and where the kernel does not tell of its types."""
    from omn_kernel.btf.kernel import PATH

    if not os.path.exists(PATH):
        pytest.skip(f"this kernel has no {PATH}")

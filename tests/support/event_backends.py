"""The two ways that programs are told of the same events: by the kernel's types, and by the records of tracepoints."""

from __future__ import annotations

import pytest
from omn_kernel.mounts import find_tracefs

TYPED, RECORDED = "bpf:raw_tp", "bpf:tp"

needs_records = pytest.mark.skipif(find_tracefs("/") is None, reason="tracefs is not mounted")
"""What leaves a test out where no record is described."""

EACH_BACKEND = [TYPED, pytest.param(RECORDED, marks=needs_records)]
"""The backends of a test that both have to pass. A record that comes while its cpu works on a map, anybody's, is passed
over, and counted from Linux 6.7 on: what such programs saw is what happened, less at most what they skipped."""


def leave_out_skipped(skipped: int, backend: str) -> None:
    """Leave a test out that takes every record, where the kernel passed some over; programs on raw ones miss none."""
    assert backend == RECORDED or skipped == 0
    if skipped:
        pytest.skip("the kernel passed records over here")

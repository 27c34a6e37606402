"""What a cpu does when a program is called, told where it can be one thing alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pytest
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.attaching import attach
from omn_kernel.bpf.contexts import CpuContext, read_cpu_context
from omn_kernel.bpf.hooks import RawTracepoint, TypedTracepoint
from omn_kernel.bpf.loading import load
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R0, R1, R6
from omn_kernel.btf import cpu_variables
from omn_kernel.btf.cpu_variables import compute_distance, find_symbol
from omn_kernel.btf.fields import FieldMissing
from omn_kernel.btf.kernel import read_kernel_btf

pytestmark = pytest.mark.usefixtures("loads_typed_programs")
COUNT = np.dtype([("runs", np.uint64)])
KEY = np.dtype([("context", np.uint32)])


@pytest.fixture
def told() -> Iterator[Map]:
    with Map(MapType.ARRAY, "told", KEY, COUNT, len(CpuContext)) as table:
        yield table


def count_contexts(told: Map, tracepoint: str, *, is_typed: bool) -> dict[CpuContext, int]:
    """Count in which contexts a tracepoint is passed while this sleeps, and its timers expire."""
    types = read_kernel_btf("/")
    hook = TypedTracepoint(tracepoint, types) if is_typed else RawTracepoint(tracepoint)
    program = KernelAssembly("tell_context", types, has_typed_pointers=is_typed)
    key = program.reserve(KEY)
    read_cpu_context(program, R6)
    program.set(key, "context", R6)
    program.look_up(told, key)
    with program.when(R0, "!=", 0):
        program.move(R1, 1)
        program.add_to(Record(R0, COUNT), "runs", R1)
    program.leave(0)
    with ExitStack() as stack:
        loaded = stack.enter_context(load(program.assemble(), hook))
        stack.enter_context(attach(loaded, hook))
        for _ in range(20):
            time.sleep(0.002)
    found = told.read()
    counts = zip(found.keys["context"].tolist(), found.values["runs"].tolist(), strict=True)
    return {CpuContext(context): runs for context, runs in counts if runs}


@pytest.mark.parametrize("is_typed", [False, True])
@pytest.mark.parametrize(
    ("tracepoint", "context"),
    [
        ("sys_enter", CpuContext.TASK),
        ("softirq_entry", CpuContext.SOFTIRQ),
        ("hrtimer_expire_entry", CpuContext.HARDIRQ),
    ],
)
def test_a_context_is_told(told: Map, tracepoint: str, context: CpuContext, is_typed: bool) -> None:
    """A call is a task's own, a softirq is none whichever task it came over, and a sleep's timer is an interrupt."""
    counts = count_contexts(told, tracepoint, is_typed=is_typed)
    # Some timers, which no sleep waits for, expire in a softirq.
    others = {CpuContext.SOFTIRQ} if tracepoint.startswith("hrtimer") else set()
    assert set(counts) - others == {context}
    assert counts[context] >= (20 if tracepoint != "softirq_entry" else 1)


def test_symbols_tell_where_types_have_no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """How far apart two lie is the difference of their places; a place that is hidden is none."""
    listed = (
        b"00000000000 A hidden\n0000000000015d00 A near\n0000000000015d80 A not_near\n0000000000022c40 A runqueues\n"
    )
    assert find_symbol(listed, "near") == 0x15D00
    assert (find_symbol(listed, "hidden"), find_symbol(listed, "far")) == (None, None)
    types = read_kernel_btf("/")
    monkeypatch.setattr(cpu_variables, "read_file", lambda _root, _path: listed)
    assert compute_distance(types, "runqueues", "near") == 0x15D00 - 0x22C40
    with pytest.raises(FieldMissing, match="hidden"):
        compute_distance(types, "runqueues", "hidden")

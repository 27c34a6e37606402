"""Another process's cpu clock: the scheduler's nanoseconds, to the end of a zombie."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import pytest
from omn_kernel.cpu_clock import has_process_clocks, read_process_clock
from omn_kernel.probes.basic import probe_cpu_clock
from omn_kernel.procfs.process import ProcessGone

from omn_core.api import AVAILABLE, Need, ProbeContext, State
from omn_core.testing.stepped import Running, Workload
from omn_core.testing.workloads import spin


def test_the_clock_of_this_process_is_the_one_it_reads_itself() -> None:
    """By number or as its own, it is one clock."""
    before = time.clock_gettime_ns(time.CLOCK_PROCESS_CPUTIME_ID)
    read = read_process_clock(os.getpid())
    after = time.clock_gettime_ns(time.CLOCK_PROCESS_CPUTIME_ID)
    assert before <= read <= after
    assert has_process_clocks()


def test_the_clock_of_another_agrees_with_schedstat(workload: Callable[[Workload], Running]) -> None:
    """It grows by what the scheduler counted of its one thread, and stays readable until it is reaped."""
    child = workload(spin(50_000_000))
    child.wait("ready")
    before = read_process_clock(child.pid)
    child.release()
    facts = child.wait("spun")
    assert read_process_clock(child.pid) - before == pytest.approx(facts["oncpu_ns"], abs=5_000_000)
    child.release()
    child.wait_exited()
    assert read_process_clock(child.pid) - before >= facts["oncpu_ns"]
    child.finish()
    with pytest.raises(ProcessGone, match=f"process {child.pid} is not there"):
        read_process_clock(child.pid)


def test_the_number_of_a_thread_is_no_process() -> None:
    """A thread's own number names no process's clock."""
    gate = threading.Event()
    thread = threading.Thread(target=gate.wait)
    thread.start()
    try:
        assert thread.native_id is not None
        with pytest.raises(ProcessGone):
            read_process_clock(thread.native_id)
    finally:
        gate.set()
        thread.join()


def test_the_clock_is_probed_by_reading_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The feature is asked, not a version; a call that is kept from us is restricted, and a missing one missing."""
    need, context = Need("cpu_clock", "cpu_clock"), ProbeContext()
    assert probe_cpu_clock(need, context) == AVAILABLE
    monkeypatch.setattr("omn_kernel.probes.basic.has_process_clocks", lambda: False)
    assert probe_cpu_clock(need, context).state is State.MISSING

    def refuse() -> bool:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("omn_kernel.probes.basic.has_process_clocks", refuse)
    assert probe_cpu_clock(need, context).state is State.RESTRICTED

"""Clocks that are set by hand, and what the kernel does to a guest that grows hot of a fast one (vms/clocks.asl)."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from omn_core.testing.harness import Driver, bind_machine

Drive = Callable[..., Driver]
TRACING = Path("/sys/kernel/tracing")
POLICIES = Path("/sys/devices/system/cpu/cpufreq")
COOLING = Path("/sys/class/thermal")
SLOW, HOT = 800_000, 2_000_000
SET = (1_200_000, 1_600_000, 800_000, 1_200_000)
"""None of which is so fast that its heat has the kernel take it back."""
DEADLINE_S = 60
BACKENDS = ("bpf:raw_tp", "bpf:tp")


def set_clock(cpu: int, khz: int) -> None:
    (POLICIES / f"policy{cpu}/scaling_setspeed").write_text(str(khz))


@pytest.fixture(autouse=True)
def _slow() -> Iterator[None]:
    yield
    for cpu in (0, 1):
        set_clock(cpu, SLOW)


@pytest.mark.spec("PWR-1", "KRN-9")
def test_each_frequency_is_told_of_with_how_long_it_was_held(drive: Drive) -> None:
    """Four settings of a cpu, each between the readings of the clock around it; the kernel counted as many.

    One period follows the other without a gap. What was held before the first nobody announced.
    """
    set_clock(1, SLOW)
    counted = POLICIES / "policy1/stats/total_trans"
    before = int(counted.read_text())
    with (
        drive("power.freq", BACKENDS[0], bind_machine(), mode="trace") as raw,
        drive("power.freq", BACKENDS[1], bind_machine(1), mode="trace") as classic,
    ):
        moments = []
        for khz in SET:
            began_ns = time.monotonic_ns()
            set_clock(1, khz)
            moments.append((began_ns, time.monotonic_ns()))
        changes = int(counted.read_text()) - before
        for driver in (raw, classic):
            driver.sample()
    assert changes == len(SET)
    hertz = [khz * 1000 for khz in SET]
    for driver in (raw, classic):
        *changed, last = [row for row in driver.rows if row["cpu"] == 1]
        assert [row["next_hz"] for row in changed] == hertz
        assert [row.get("freq_hz") for row in [*changed, last]] == [None, *hertz]
        assert "next_hz" not in last
        for (began_ns, ended_ns), row in zip(moments, changed, strict=True):
            assert began_ns <= row["ts_ns"] <= ended_ns
        for row, following in zip(changed, [*changed[1:], last], strict=True):
            assert following["ts_ns"] - following["interval_ns"] == row["ts_ns"]
        fields = driver.collector.fields()
        assert (fields["unfinished"], fields["begun_before"]) == (1, 1)


@pytest.mark.spec("PWR-1", "CAT-12")
def test_a_reading_is_the_frequency_that_was_set(drive: Drive) -> None:
    """Of each cpu its own, as its policy's file has it."""
    with drive("power.freq", "fs:sys:scaling_cur_freq", bind_machine(), mode="snapshot") as driver:
        for khz in SET:
            set_clock(1, khz)
            assert {row["cpu"]: row["freq_hz"] for row in driver.sample()} == {0: SLOW * 1000, 1: khz * 1000}


@pytest.mark.spec("PWR-1", "KRN-9")
def test_each_time_that_heat_slows_a_processor_is_counted(drive: Drive) -> None:
    """As often as the kernel's own account has a device leave state 0; without numbers of devices, once a kind.

    The zone grows hot of the clock that is set and cool of the one that the kernel sets instead, over and over.
    """
    wait_until(is_cool)
    switch = TRACING / "events/thermal/cdev_update/enable"
    (TRACING / "trace").write_text("")
    switch.write_text("1")
    try:
        began_ns, before = time.monotonic_ns(), count_leavings()
        with (
            drive("power.throttle", BACKENDS[0], bind_machine()) as raw,
            drive("power.throttle", BACKENDS[1], bind_machine()) as classic,
        ):
            set_clock(0, HOT)
            wait_until(lambda: sum(state > 0 for state in read_states()) >= 4)
            set_clock(0, SLOW)
            # A last step may be on its way still: a device is set before it is counted, and counted before it is told.
            left, is_over = 0, False
            while not is_over:
                wait_until(is_cool)
                left = count_leavings() - before
                raw.sample()
                classic.sample()
                states = [0, *read_states()]
                is_over = is_cool() and count_leavings() - before == left
        length_ns = time.monotonic_ns() - began_ns
    finally:
        switch.write_text("0")
    told, told_by_kind = (
        {name: sum(row[name] for row in driver.rows) for name in ("throttles", "throttled_ns")}
        for driver in (raw, classic)
    )
    assert told["throttles"] == left > 0
    assert told_by_kind["throttles"] == sum(then == 0 < now for then, now in itertools.pairwise(states))
    assert 0 < told_by_kind["throttled_ns"] <= length_ns
    assert told_by_kind["throttled_ns"] <= told["throttled_ns"] <= 2 * length_ns


def read_states() -> list[int]:
    """Read from tracefs what the cooling devices were set to, one after the other."""
    return [int(state) for state in re.findall(r"cdev_update: type=Processor target=(\d+)", read_trace())]


def read_trace() -> str:
    return (TRACING / "trace").read_text()


def is_cool() -> bool:
    """Tell whether no device is on, by what each says and by what its account says was done last."""
    return all(int(file.read_text()) == 0 for file in COOLING.glob("cooling_device*/cur_state"))


def count_leavings() -> int:
    """Count how often devices went from state 0 to another, by the kernel's tables: a row for each state left."""
    rows: list[Any] = []
    for file in COOLING.glob("cooling_device*/stats/trans_table"):
        rows += re.findall(r"^\s*state *0:(.*)$", file.read_text(), re.M)
    assert len(rows) == 2
    return sum(int(number) for row in rows for number in row.split())


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait until something holds, as long as a guest may take for it."""
    end = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end, read_trace()[-2000:]
        time.sleep(0.05)

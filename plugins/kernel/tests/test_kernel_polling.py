"""The collector that reads at each tick: baseline, rows, losses, and what it holds open."""

from __future__ import annotations

import os

import pytest
from omn_kernel.polling import MachineFileCollector, PolledCollector, Rows
from shapes import make_resolved

from omn_core.api import BoundTarget, MachineRefused, Target, TargetGone
from omn_core.testing.harness import Driver, bind_machine
from omn_core.testing.sysroot import Sysroot


class Number(MachineFileCollector):
    """The number that a file holds."""

    path = "/proc/number"
    reads_at_open = True

    def make_rows(self, content: bytes, at_ns: int) -> Rows:
        return Rows.of_one({"value": int(content), "absent": None}, {"cpu": [3]})


class Growing(Number):
    """What it grew by."""

    reads_at_open = False
    last = 0

    def make_rows(self, content: bytes, at_ns: int) -> Rows:
        grown, self.last = int(content) - self.last, int(content)
        if not grown:
            self.misses.note("it did not grow")
            return Rows()
        return Rows.of_one({"value": grown})


def drive(collector: PolledCollector[bytes], sysroot: Sysroot) -> Driver:
    return Driver(collector, make_resolved(target=Target("system")), bind_machine(), sysroot=str(sysroot))


def test_a_gauge_reads_nothing_before_it_is_asked(sysroot: Sysroot) -> None:
    """Its rows are stamped at the end of the reading; what is None is in no column."""
    sysroot.write("/proc/number", "5\n")
    with drive(Number(), sysroot) as driver:
        (row,) = driver.sample()
        assert row.pop("ts_ns") > 0
        assert row == {"cpu": 3, "value": 5}


@pytest.mark.spec("RUN-10")
def test_an_interval_begins_with_a_baseline_that_is_in_no_row(sysroot: Sysroot) -> None:
    """What stood at the attach is not counted, and a reading without rows is an empty batch with its reason."""
    sysroot.write("/proc/number", "5\n")
    with drive(Growing(), sysroot) as driver:
        sysroot.write("/proc/number", "7\n")
        assert [row["value"] for row in driver.sample()] == [2]
        assert driver.sample() == []
        assert driver.collector.losses().reasons == ("it did not grow",)


def test_every_file_is_closed_at_the_stop(sysroot: Sysroot) -> None:
    """Nothing stays open once the collector stopped."""
    sysroot.write("/proc/number", "5\n")
    before = len(os.listdir("/proc/self/fd"))
    with drive(Number(), sysroot):
        assert len(os.listdir("/proc/self/fd")) == before + 1
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_that_cannot_be_opened_refuses(sysroot: Sysroot) -> None:
    """The refusal is the machine's and names the file as the machine has it."""
    with pytest.raises(MachineRefused, match=r"^/proc/number cannot be opened: No such file"):
        drive(Number(), sysroot).__enter__()


def test_a_file_closed_to_this_user_says_what_opens_it(sysroot: Sysroot, monkeypatch: pytest.MonkeyPatch) -> None:
    """Restricted is not absent."""

    def refuse(path: str, flags: int) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("omn_kernel.polled.os.open", refuse)
    with pytest.raises(MachineRefused) as refused:
        drive(Number(), sysroot).__enter__()
    monkeypatch.undo()
    assert str(refused.value) == "/proc/number is closed to this user; run omn as root"


def test_a_target_that_is_gone_at_the_baseline_refuses(sysroot: Sysroot) -> None:
    """The end before the beginning is the machine's refusal and no empty answer."""

    class Gone(Growing):
        def open_files(self, target: BoundTarget) -> None:
            """Open nothing."""

        def read(self) -> bytes:
            raise TargetGone

    with pytest.raises(MachineRefused, match="ended before it could be read"):
        drive(Gone(), sysroot).__enter__()

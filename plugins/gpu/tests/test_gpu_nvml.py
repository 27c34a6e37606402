"""Each source of NVIDIA's devices against a stand-in whose answers are known: values, refusals, losses, repetitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from nvml_stub import MIB, Stub

from omn_core.api import BoundTarget, MachineRefused, TargetGone
from omn_core.testing.harness import Driver, bind_machine

Bind = Callable[..., BoundTarget]
Drive = Callable[..., Driver]


def strip(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "ts_ns"} for row in rows]


def list_facts(driver: Driver) -> list[str]:
    """Return what an answer says, but for calls that a busy machine held."""
    return [fact for fact in driver.collector.facts() if not fact.startswith("the driver held")]


@pytest.mark.spec("GPU-1")
def test_memory_is_the_devices(stub: Stub, drive: Drive, bind: Bind) -> None:
    """Used, free and total, each as the driver says."""
    stub.set(memory=f"{100 * MIB} {70 * MIB} {30 * MIB}")
    with drive("gpu.mem", bind("0")) as driver:
        (row,) = strip(driver.sample())
    assert row == {"gpu": 0, "bytes": 30 * MIB, "free_bytes": 70 * MIB, "total_bytes": 100 * MIB}


def test_the_machines_memory_is_a_sum_or_each_devices(stub: Stub, drive: Drive) -> None:
    """Without a division one row; with key gpu one of each device."""
    stub.add_second()
    stub.set({"0.memory": "100 70 30", "1.memory": "200 150 50"})
    with drive("gpu.mem", bind_machine()) as whole, drive("gpu.mem", bind_machine(), "gpu") as divided:
        assert strip(whole.sample()) == [{"bytes": 80, "free_bytes": 220, "total_bytes": 300}]
        assert [(row["gpu"], row["bytes"]) for row in divided.sample()] == [(0, 30), (1, 50)]


@pytest.mark.spec("GPU-1")
def test_utilization_is_the_mean_of_what_the_driver_sampled_since(stub: Stub, drive: Drive, bind: Bind) -> None:
    """Samples from before the attach are none of it; each interval has its own, with its length by their dates."""
    stub.set(samples="1000:90 2000:90", memory_samples="2000:0")
    with drive("gpu.util", bind("0")) as driver:
        stub.set(samples="1000:90 2000:90 3000:10 4000:30", memory_samples="2000:0 3000:4 4000:8")
        (row,) = strip(driver.sample())
        expected = {"util": 0.2, "mem_util": 0.06, "samples": 2, "interval_ns": 2_000_000}
        assert row == {"gpu": 0, **{name: pytest.approx(value) for name, value in expected.items()}}
        stub.set(samples="4000:30 5000:100")
        (row,) = driver.sample()
        assert (row["util"], row["samples"]) == (1.0, 1)


@pytest.mark.spec("GPU-1")
def test_a_repeated_sample_is_counted_said_and_no_row(stub: Stub, drive: Drive, bind: Bind) -> None:
    """Polling faster than the driver samples reads the same again: not once more, and never zero."""
    stub.set(samples="1000:50")
    with drive("gpu.util", bind("0")) as driver:
        stub.set(samples="1000:50 2000:60")
        assert [row["util"] for row in driver.sample()] == [0.6]
        before = driver.collector.fields().get("repeated_samples", 0)
        assert driver.sample() == driver.sample() == []
        assert driver.collector.fields()["repeated_samples"] == before + 2
        assert any("gpu 0 (Stub One) had nothing new at" in fact for fact in driver.collector.facts())
        assert driver.collector.losses().is_empty


def test_the_busiest_device_is_the_machines(stub: Stub, drive: Drive) -> None:
    """Shares of several devices make none together."""
    stub.add_second()
    stub.set({"0.samples": "1000:0", "1.samples": "1000:0"})
    with drive("gpu.util", bind_machine()) as whole, drive("gpu.util", bind_machine(), "gpu") as divided:
        stub.set({"0.samples": "2000:20", "1.samples": "2000:70"})
        assert [(row["gpu"], row["util"]) for row in whole.sample()] == [(1, 0.7)]
        assert [(row["gpu"], row["util"]) for row in divided.sample()] == [(0, 0.2), (1, 0.7)]


def test_a_device_without_dated_samples_gives_its_latest_figure(stub: Stub, drive: Drive, bind: Bind) -> None:
    """And the answer says that a repetition cannot be told there."""
    stub.set(rates="40 10")
    with drive("gpu.util", bind("0")) as driver:
        assert strip(driver.sample()) == [{"gpu": 0, "util": 0.4, "mem_util": 0.1}]
        (fact,) = list_facts(driver)
    assert fact == "the driver does not date its samples of gpu 0 (Stub One): one that it repeats cannot be told"


@pytest.mark.spec("GPU-1", "SRC-6")
def test_energy_is_what_the_counter_grew_by(stub: Stub, drive: Drive, bind: Bind) -> None:
    """Millijoules make joules, over the interval watts; the draw beside them is the driver's."""
    now = iter(range(0, 1_000_000_000_000, 500_000_000))
    stub.set(energy=1_000_000, power=70_000)
    with drive("gpu.power", bind("0"), clock=lambda: next(now)) as driver:
        stub.set(energy=1_060_500)
        (row,) = driver.sample()
    assert row["joules"] == 60.5
    assert row["watts"] == pytest.approx(60.5 / (row["interval_ns"] / 1e9))
    assert row["drawn_watts"] == 70.0


def test_a_counter_that_did_not_move_joins_the_next_interval(stub: Stub, drive: Drive, bind: Bind) -> None:
    """It is a repetition; nothing of the energy is lost."""
    stub.set(energy=1000)
    with drive("gpu.power", bind("0")) as driver:
        assert driver.sample() == []
        assert driver.collector.fields()["repeated_samples"] == 1
        stub.set(energy=5000)
        assert [row["joules"] for row in driver.sample()] == [4.0]


@pytest.mark.spec("GPU-1")
def test_a_device_without_an_energy_counter_is_refused_by_name(stub: Stub, drive: Drive, bind: Bind) -> None:
    """Its power at an instant is no stand-in."""
    stub.set(power=70_000)
    with pytest.raises(MachineRefused, match=r"gpu 0 \(Stub One\) does not report its energy counter") as refused:
        drive("gpu.power", bind("0")).__enter__()
    assert "Not Supported" in str(refused.value)


@pytest.mark.spec("SRC-6")
def test_a_counter_that_implies_less_than_half_the_draw_is_said(stub: Stub, drive: Drive, bind: Bind) -> None:
    """With both figures; one that implies more is not."""
    now = iter(range(0, 10**15, 1_000_000_000))
    stub.set(energy=1000, power=80_000)
    with drive("gpu.power", bind("0"), clock=lambda: next(now)) as driver:
        stub.set(energy=1300)
        (row,) = driver.sample()
        assert row["watts"] < 40
        (fact,) = list_facts(driver)
        assert "was 80 W" in fact
        stub.set(energy=10_000_000)
        driver.sample()
        assert list_facts(driver) == []


def test_a_counter_that_steps_back_makes_no_row(stub: Stub, drive: Drive, bind: Bind) -> None:
    """The driver was loaded anew: the interval is unknown, and counted."""
    stub.set(energy=1000)
    with drive("gpu.power", bind("0")) as driver:
        stub.set(energy=10)
        assert driver.sample() == []
        (reason,) = driver.collector.losses().reasons
    assert reason == "the kernel's energy counter of gpu 0 (Stub One) stepped back, and that interval is unknown"


@pytest.mark.parametrize("call", ["temp", "old_temp"])
def test_temperature_by_the_new_call_and_the_old_one(stub: Stub, drive: Drive, bind: Bind, call: str) -> None:
    """A driver that lacks the one is asked by the other."""
    stub.set(**{call: 45})
    with drive("gpu.temp", bind("0")) as driver:
        assert strip(driver.sample()) == [{"gpu": 0, "celsius": 45}]


@pytest.mark.spec("SRC-6", "GPU-1")
def test_clocks_are_reported_with_what_holds_them(stub: Stub, drive: Drive, bind: Bind) -> None:
    """In hertz; a clock that the device has not is absent; a lock that does not show is never called free clocks."""
    stub.set(sm=1500, graphics=1500, mem=7000, application=1395, persistence=1, reasons=1)
    with drive("gpu.clocks", bind("0")) as driver:
        (row,) = strip(driver.sample())
        stub.set(reasons=0x24)
    assert row == {"gpu": 0, "sm_hz": 1_500_000_000, "graphics_hz": 1_500_000_000, "mem_hz": 7_000_000_000}
    (fact,) = list_facts(driver)
    state = "shader clock not shown locked, applications clock 1395 MHz, persistence mode on, held by"
    assert fact == (
        f"gpu 0 (Stub One): {state} idle; at the end {state} the power cap and its temperature, by the driver"
    )


def test_what_holds_the_clocks_may_be_unknown(stub: Stub, drive: Drive, bind: Bind) -> None:
    """Nothing that the driver does not say is made up."""
    stub.set(sm=1500)
    with drive("gpu.clocks", bind("0")) as driver:
        driver.sample()
    (fact,) = list_facts(driver)
    assert fact.endswith(
        "shader clock not shown locked, applications clock unknown, persistence mode unknown, held by unknown"
    )


def test_the_bus_has_two_directions(stub: Stub, drive: Drive, bind: Bind) -> None:
    """Both in one row, or a row each."""
    stub.set(tx=3000, rx=500)
    with drive("gpu.pcie", bind("0")) as driver:
        (row,) = strip(driver.sample())
    assert row == {"gpu": 0, "throughput": 3_500_000, "rx_throughput": 500_000, "tx_throughput": 3_000_000}
    with drive("gpu.pcie", bind("0"), "dir") as driver:
        rows = strip(driver.sample())
    assert rows == [
        {"gpu": 0, "dir": "rx", "throughput": 500_000},
        {"gpu": 0, "dir": "tx", "throughput": 3_000_000},
    ]


@pytest.mark.parametrize(
    ("source", "topic"),
    [
        ("gpu.mem", "memory"),
        ("gpu.util", "utilization"),
        ("gpu.temp", "temperature"),
        ("gpu.clocks", "clocks"),
        ("gpu.pcie", "bus throughput"),
        ("gpu.processes", "processes"),
    ],
)
def test_what_a_device_does_not_report_is_refused_by_name(
    stub: Stub, drive: Drive, bind: Bind, source: str, topic: str
) -> None:
    """Never a zero."""
    with pytest.raises(MachineRefused, match=rf"gpu 0 \(Stub One\) does not report its {topic} \(NVML: Not Supported"):
        drive(source, bind("0")).__enter__()


def test_a_divided_device_says_why_it_reports_no_utilization(stub: Stub, drive: Drive, bind: Bind) -> None:
    """MIG is named."""
    stub.set(mig=1)
    with pytest.raises(MachineRefused, match=r"does not report its utilization while it is divided \(MIG\)"):
        drive("gpu.util", bind("0")).__enter__()


def test_what_is_closed_to_this_user_says_so(stub: Stub, drive: Drive, bind: Bind) -> None:
    """Restricted is not absent."""
    stub.set(temp__error=4)
    with pytest.raises(MachineRefused, match="does not tell this user its temperature") as refused:
        drive("gpu.temp", bind("0")).__enter__()
    assert refused.value.remedy == "run omn as root"


def test_of_the_machine_one_that_does_not_report_is_left_out_and_said(stub: Stub, drive: Drive) -> None:
    """The other one is measured."""
    stub.add_second()
    stub.set({"1.temp": 50})
    with drive("gpu.temp", bind_machine()) as driver:
        assert [(row["gpu"], row["celsius"]) for row in driver.sample()] == [(1, 50)]
        (fact,) = list_facts(driver)
    assert fact.startswith("gpu 0 (Stub One) does not report its temperature")
    assert fact.endswith("gpu 0 (Stub One) is in no figure")


@pytest.mark.spec("GPU-1")
def test_a_device_that_is_lost_ends_the_request(stub: Stub, drive: Drive, bind: Bind) -> None:
    """What it did since its last reading is missing, counted and said."""
    stub.set(temp=45)
    with drive("gpu.temp", bind("0")) as driver:
        assert len(driver.sample()) == 1
        stub.set(lost=1)
        with pytest.raises(TargetGone):
            driver.sample()
        losses = driver.collector.losses()
    assert losses.failed_reads == 1
    assert losses.reasons[0].startswith("gpu 0 (Stub One) was lost (NVML: GPU is lost)")


def test_of_the_machine_the_devices_that_are_left_go_on(stub: Stub, drive: Drive) -> None:
    """One that is lost is counted once and asked no more."""
    stub.add_second()
    stub.set({"0.temp": 45, "1.temp": 50})
    with drive("gpu.temp", bind_machine(), "gpu") as driver:
        stub.set(lost=1)
        assert [row["gpu"] for row in [*driver.sample(), *driver.sample()]] == [1, 1]
        assert driver.collector.losses().failed_reads == 1


def test_an_error_of_one_reading_is_counted_and_the_next_one_is_made(stub: Stub, drive: Drive, bind: Bind) -> None:
    """With the driver's own word for it."""
    stub.set(temp=45)
    with drive("gpu.temp", bind("0")) as driver:
        stub.set(temp__error=999)
        assert driver.sample() == []
        stub.set(temp__error=None)
        assert len(driver.sample()) == 1
        assert driver.collector.losses().reasons == ("gpu 0 (Stub One): NVML: Unknown Error",)


@pytest.mark.spec("SRC-6")
def test_a_call_that_the_driver_holds_is_the_values_error_and_said(stub: Stub, drive: Drive) -> None:
    """Uncertain from the call on; the device that answered at once after it is not uncertain by the other's call."""
    stub.add_second()
    stub.set({"0.temp": 45, "1.temp": 50})
    with drive("gpu.temp", bind_machine(), "gpu") as driver:
        stub.set(temp__sleep_ms=200)
        batch = driver.collector.sample(0)
        assert batch.ts_err is not None
        held_ns, quick_ns = batch.ts_err.tolist()
        assert held_ns >= 200_000_000
        assert 0 < quick_ns < held_ns - 199_000_000
        (fact,) = [fact for fact in driver.collector.facts() if "gpu 0 (Stub One)" in fact]
    assert fact.startswith("the driver held")
    assert "for over 25 ms" in fact


def test_processes_are_listed_once_however_many_lists_they_are_in(stub: Stub, drive: Drive, bind: Bind) -> None:
    """One that computes and draws has one amount; in two parts of a divided device it has two."""
    stub.set(compute="10:100 11:50:1 11:70:2", graphics_list="10:100 12:5")
    with drive("gpu.processes", bind("0"), mode="snapshot") as driver:
        rows = [(row["task"], row["bytes"], row["use"], row["processes"]) for row in driver.sample()]
    assert rows == [(10, 100, "compute+graphics", 1), (11, 120, "compute", 1), (12, 5, "graphics", 1)]
    with drive("gpu.processes", bind("0")) as driver:
        assert strip(driver.sample()) == [{"gpu": 0, "processes": 3}]


def test_an_older_driver_lists_by_the_older_call(stub: Stub, drive: Drive, bind: Bind) -> None:
    """It has no newer one."""
    stub.set(old_compute="10:100")
    with drive("gpu.processes", bind("0"), mode="snapshot") as driver:
        assert [(row["task"], row["bytes"]) for row in driver.sample()] == [(10, 100)]


def test_no_process_is_a_count_of_zero_and_an_amount_that_is_not_told_is_absent(
    stub: Stub, drive: Drive, bind: Bind
) -> None:
    """A zero is a measurement, and unknown is none."""
    stub.set(compute="")
    with drive("gpu.processes", bind("0")) as driver:
        assert strip(driver.sample()) == [{"gpu": 0, "processes": 0}]
    stub.set(compute="10:-")
    with drive("gpu.processes", bind("0"), mode="snapshot") as driver:
        (row,) = driver.sample()
    assert "bytes" not in row

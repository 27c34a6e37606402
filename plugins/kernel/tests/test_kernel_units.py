"""Events of performance units by their names: terms and formats, trees of sysfs, and the timestamp counter itself."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omn_kernel.perf.counters import CounterCollector
from omn_kernel.perf.events import PerfEvent, Raised
from omn_kernel.perf.units import (
    compute_config,
    find_unit_cpus,
    list_unit_events,
    parse_terms,
    read_unit_event,
)
from omn_kernel.probes.events import probe_pmu
from omn_kernel.probes.tracepoints import DEVICES
from omn_kernel.procfs.cpuinfo import has_clock_counters, parse_cpu_clocks
from shapes import make_resolved

from omn_core.api import Need, ProbeContext, State, Target
from omn_core.model.request import Request
from omn_core.testing.harness import Driver, bind_machine
from omn_core.testing.sysroot import Sysroot

NS = 1_000_000_000


def ask(argument: str, sysroot: str = "/") -> tuple[State, str]:
    answer = probe_pmu(Need("", "pmu", argument), ProbeContext("system", sysroot=sysroot))
    return answer.state, str(answer.reason)


@pytest.mark.spec("KRN-8")
def test_terms_are_laid_into_the_bits_that_their_formats_name() -> None:
    """A term without a value is 1; a format of two stretches takes the lowest bits first."""
    assert parse_terms(b"event=0x02\n") == {"event": 2}
    assert parse_terms(b"event=0x1c,umask=3,edge\n") == {"event": 0x1C, "umask": 3, "edge": 1}
    formats = {"event": "config:0-7,32-35", "umask": "config:8-15", "edge": "config:18"}
    assert compute_config({"event": 0xABC, "umask": 3, "edge": 1}, formats) == 0xA_0004_03BC


@given(st.integers(0, (1 << 12) - 1))
def test_no_bit_of_a_value_is_lost(value: int) -> None:
    """Whatever its format cuts it into."""
    config = compute_config({"event": value}, {"event": "config:4-7,20-26,60"})
    assert (config >> 4 & 15) | (config >> 20 & 127) << 4 | (config >> 60 & 1) << 11 == value


def test_a_term_of_another_word_is_refused() -> None:
    """What lies in config1 is not guessed into config."""
    with pytest.raises(ValueError, match="config1:0-7"):
        compute_config({"ldlat": 3}, {"ldlat": "config1:0-7"})


@pytest.mark.spec("KRN-8")
def test_an_event_is_read_with_what_its_counts_are_worth(sysroot: Sysroot) -> None:
    """As the power unit has them: one cpu of each package, and joules."""
    folder = f"{DEVICES}/power"
    files = {
        "type": "14\n",
        "cpumask": "0,28\n",
        "format/event": "config:0-7\n",
        "events/energy-pkg": "event=0x02\n",
        "events/energy-pkg.scale": "2.3283064365386962890625e-10\n",
        "events/energy-pkg.unit": "Joules\n",
    }
    for name, content in files.items():
        sysroot.write(f"{folder}/{name}", content)
    read = read_unit_event(str(sysroot), "power", "energy-pkg")
    assert (read.event.kind, read.event.config, read.event.raised) == (14, 2, Raised.CLOCK)
    assert (read.scale, read.unit) == (2**-32, "Joules")
    assert list_unit_events(str(sysroot), "power") == ["energy-pkg"]
    assert find_unit_cpus(str(sysroot), "power") == (0, 28)
    assert find_unit_cpus(str(sysroot), "msr") is None


@pytest.mark.spec("PRB-3")
def test_what_is_not_there_is_named(sysroot: Sysroot) -> None:
    """A unit, or an event of one that is there; what this user may open is asked by opening it."""
    assert ask("power:energy-pkg", str(sysroot)) == (
        State.MISSING,
        "this machine has no event energy-pkg of a performance unit power",
    )
    sysroot.write(f"{DEVICES}/power/type", "14\n")
    assert ask("power", str(sysroot))[0] is State.AVAILABLE
    assert ask("power:energy-pkg", str(sysroot))[0] is State.MISSING
    sysroot.write(f"{DEVICES}/power/events/odd", "event=zwei\n")
    assert ask("power:odd", str(sysroot))[0] is State.UNKNOWN


class Stamps(CounterCollector):
    """The timestamp counter of each cpu."""

    def find_events(self) -> Mapping[str, PerfEvent]:
        """Return it."""
        return {"value": read_unit_event("/", "msr", "tsc").event}


@pytest.mark.spec("KRN-8", "PRB-3")
def test_the_timestamp_counter_runs_at_its_own_frequency() -> None:
    """On each cpu it ticks no less than between the opening and the reading, and no more than around both.

    By the frequency that the kernel measured at its boot, which is right to a hundredth.
    """
    state, reason = ask("msr:tsc")
    if state is not State.AVAILABLE:
        pytest.skip(f"the timestamp counter cannot be counted here: {reason}")
    content = Path("/proc/cpuinfo").read_bytes()
    stated = parse_cpu_clocks(content)
    if has_clock_counters(content) or not all(stated.values()):
        pytest.skip("the timestamp counter's frequency is stated by no file here")
    request = Request("f.x", "poll", keys=("cpu",), target=Target("system"))
    collector = Stamps()
    resolved = make_resolved(request=request, target=request.target, keys=("cpu",))
    moments = [time.monotonic_ns()]
    with Driver(collector, resolved, bind_machine()) as driver:
        moments.append(time.monotonic_ns())
        time.sleep(0.05)
        moments.append(time.monotonic_ns())
        rows = driver.sample()
        moments.append(time.monotonic_ns())
        fields = collector.fields()
    before, opened, closing, closed = moments
    assert {row["cpu"] for row in rows} == stated.keys()
    for row in rows:
        ticked_ns = row["value"] * NS / (stated[row["cpu"]] or 1)
        assert 0.99 * (closing - opened) <= ticked_ns <= 1.01 * (closed - before)
    assert fields["value_running_ns"] == fields["value_enabled_ns"] > 0

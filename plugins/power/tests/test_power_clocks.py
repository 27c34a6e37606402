"""power.freq: policies as cpufreq lays them out, /proc/cpuinfo of several machines, and what fires its tracepoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from omn_kernel.procfs.cpuinfo import has_clock_counters, parse_cpu_clocks
from omn_power.policies import POLICIES, list_policies
from omn_power.probes import probe_cpu_mhz, probe_cpufreq

from omn_core.api import AVAILABLE, Need, ProbeContext, State, Target
from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_machine, resolve_onto
from omn_core.testing.sysroot import Sysroot

Drive = Callable[..., Driver]
AVERAGE, SCALING, CPUINFO = "fs:sys:cpuinfo_avg_freq", "fs:sys:scaling_cur_freq", "fs:proc:cpuinfo"

X86 = b"""processor\t: 0
vendor_id\t: GenuineIntel
model name\t: 13th Gen Intel(R) Core(TM) i7-1360P
cpu MHz\t\t: 400.000
flags\t\t: fpu vme constant_tsc aperfmperf tsc_known_freq pni
bogomips\t: 5222.40

processor\t: 5
cpu MHz\t\t: 4967.123
flags\t\t: fpu vme constant_tsc aperfmperf tsc_known_freq pni

"""
"""A laptop's, cut to two of its cpus: the others are offline."""

ARM64 = b"""processor\t: 0
BogoMIPS\t: 108.00
Features\t: fp asimd evtstrm aes
CPU implementer\t: 0x41

processor\t: 1
BogoMIPS\t: 108.00

"""

S390 = b"""vendor_id       : IBM/S390
# processors    : 2
processor 0: version = FF,  identification = 2733E8,  machine = 2964
cpu number      : 0
cpu MHz dynamic : 5000
cpu MHz static  : 5000
"""


@pytest.fixture
def drive(registry: Registry, catalog: Catalog, sysroot: Sysroot) -> Drive:
    """Make the driver of a backend on the tree."""

    def make(backend: str, *cpus: int) -> Driver:
        target = bind_machine(*cpus)
        resolved = resolve_onto(catalog.entries["power.freq"], backend, target.target, keys=("cpu",))
        factory = registry.load(registry.collectors["power.freq", backend].factory)
        return Driver(factory(), resolved, target, sysroot=str(sysroot))

    return make


def write_policies(sysroot: Sysroot, policies: Mapping[int, tuple[str, int | str]], file: str) -> None:
    """Lay policies out: which cpus each is for, and the kHz that its file states."""
    for number, (cpus, khz) in policies.items():
        sysroot.write(f"{POLICIES}/policy{number}/affected_cpus", f"{cpus}\n")
        sysroot.write(f"{POLICIES}/policy{number}/{file}", f"{khz}\n")


def pick(rows: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    return [(row["cpu"], row["freq_hz"]) for row in rows]


@pytest.mark.spec("PWR-1", "CAT-12")
@pytest.mark.parametrize(("backend", "file"), [(AVERAGE, "cpuinfo_avg_freq"), (SCALING, "scaling_cur_freq")])
def test_a_policys_clock_is_that_of_each_of_its_cpus(sysroot: Sysroot, drive: Drive, backend: str, file: str) -> None:
    """Policy 0 for two cpus and policy 10 for one, in kHz; the file is read anew at each tick."""
    write_policies(sysroot, {0: ("0 1", 3_400_000), 10: ("10", 800_000)}, file)
    with drive(backend) as driver:
        assert pick(driver.sample()) == [(0, 3_400_000_000), (1, 3_400_000_000), (10, 800_000_000)]
        write_policies(sysroot, {0: ("0 1", 1_200_000)}, file)
        assert pick(driver.sample())[0] == (0, 1_200_000_000)
    assert not driver.collector.reads_at_open


def test_only_the_cpus_that_are_named_have_rows(sysroot: Sysroot, drive: Drive) -> None:
    """Whatever else their policy is for."""
    write_policies(sysroot, {0: ("0 1", 3_400_000), 2: ("2", 800_000)}, "scaling_cur_freq")
    with drive(SCALING, 1) as driver:
        assert pick(driver.sample()) == [(1, 3_400_000_000)]


@pytest.mark.spec("EVT-5")
def test_a_clock_that_is_not_stated_is_absent_and_counted(sysroot: Sysroot, drive: Drive) -> None:
    """No zero stands for it, the cpu has not gone, and the policy is named."""
    write_policies(sysroot, {0: ("0", 1000), 1: ("1", 1000)}, "scaling_cur_freq")
    with drive(SCALING) as driver:
        sysroot.remove(f"{POLICIES}/policy1/scaling_cur_freq")
        assert pick(driver.sample()) == [(0, 1_000_000)]
        sysroot.write(f"{POLICIES}/policy1/scaling_cur_freq", "<unknown>\n")
        assert pick(driver.sample()) == [(0, 1_000_000)]
        losses = driver.collector.losses()
        assert driver.collector.facts() == ()
    assert losses.failed_reads == 2
    assert losses.reasons == (
        "scaling_cur_freq of policy1: No such file or directory",
        "scaling_cur_freq of policy1 states no frequency",
    )


@pytest.mark.spec("PWR-1")
def test_a_cpu_that_goes_offline_leaves_its_policy(sysroot: Sysroot, drive: Drive) -> None:
    """affected_cpus are those online; what left is said and has no figure."""
    write_policies(sysroot, {0: ("0 1", 1000)}, "scaling_cur_freq")
    with drive(SCALING) as driver:
        write_policies(sysroot, {0: ("0", 1000)}, "scaling_cur_freq")
        assert pick(driver.sample()) == [(0, 1_000_000)]
        write_policies(sysroot, {0: ("", 1000)}, "scaling_cur_freq")
        assert driver.sample() == []
        assert driver.collector.facts() == ("cpu 1 went offline in the window", "cpu 0 went offline in the window")
        assert driver.collector.losses().is_empty


@pytest.mark.spec("PWR-1")
def test_cpuinfo_states_mhz(sysroot: Sysroot, drive: Drive) -> None:
    """On x86 with APERF and MPERF nothing more is lost than the catalog says."""
    sysroot.write("/proc/cpuinfo", X86)
    with drive(CPUINFO) as driver:
        assert pick(driver.sample()) == [(0, 400_000_000), (5, 4_967_123_000)]
        assert driver.collector.degradations() == ()


@pytest.mark.spec("PWR-1")
def test_a_clock_that_nothing_counts_is_said_to_be_the_one_of_boot(sysroot: Sysroot, drive: Drive) -> None:
    """As in most virtual machines: the kernel repeats one number for ever."""
    sysroot.write("/proc/cpuinfo", X86.replace(b" aperfmperf", b""))
    with drive(CPUINFO) as driver:
        driver.sample()
        (said,) = driver.collector.degradations()
    assert "the clock the kernel was given at its boot" in said


@pytest.mark.spec("PWR-1")
def test_a_cpu_without_a_line_any_more_is_said(sysroot: Sysroot, drive: Drive) -> None:
    """/proc/cpuinfo lists the cpus that are online; one that the target names and is gone is a failed read."""
    sysroot.write("/proc/cpuinfo", X86)
    with drive(CPUINFO) as whole, drive(CPUINFO, 5) as one:
        sysroot.write("/proc/cpuinfo", X86[: X86.index(b"processor\t: 5")])
        assert pick(whole.sample()) == [(0, 400_000_000)]
        assert one.sample() == []
        assert whole.collector.facts() == ("cpu 5 went offline in the window",)
        assert whole.collector.losses().is_empty
        assert one.collector.losses().reasons == ("cpu 5 was offline at a reading",)


@pytest.mark.parametrize(("content", "cpus"), [(ARM64, {0: None, 1: None}), (S390, {}), (b"", {})])
def test_a_cpuinfo_without_clocks_states_none(sysroot: Sysroot, content: bytes, cpus: Mapping[int, int | None]) -> None:
    """Other architectures write other lines; the probe says which one is missing."""
    assert parse_cpu_clocks(content) == cpus
    assert not has_clock_counters(content)
    sysroot.write("/proc/cpuinfo", content)
    answer = probe_cpu_mhz(Need("cpu_mhz", "cpu_mhz"), ProbeContext(sysroot=str(sysroot)))
    assert (answer.state, answer.reason) == (State.MISSING, "/proc/cpuinfo states no `cpu MHz` on this machine")


@pytest.mark.spec("PRB-3")
@pytest.mark.parametrize(
    ("driver", "has_count", "state", "reason"),
    [
        ("acpi-cpufreq", True, State.AVAILABLE, None),
        ("intel_cpufreq", False, State.UNKNOWN, "intel_cpufreq keeps no count of changes"),
        ("amd-pstate-epp", False, State.MISSING, "under amd-pstate-epp the processor chooses its frequency"),
        ("intel_pstate", False, State.MISSING, "under intel_pstate the processor chooses its frequency"),
    ],
)
def test_transitions_are_asked_of_what_announces_them(
    sysroot: Sysroot, driver: str, has_count: bool, state: State, reason: str | None
) -> None:
    """A tracepoint is there on every kernel; what fires it is a driver that changes frequencies itself."""
    sysroot.write(f"{POLICIES}/policy0/scaling_driver", f"{driver}\n")
    if has_count:
        sysroot.write(f"{POLICIES}/policy0/stats/total_trans", "12\n")
    answer = probe_cpufreq(Need("cpufreq:transitions", "cpufreq", "transitions"), ProbeContext(sysroot=str(sysroot)))
    assert answer.state is state
    assert answer.reason is None if reason is None else reason in str(answer.reason)


@pytest.mark.spec("PRB-3")
def test_a_machine_without_cpufreq_names_the_folder(sysroot: Sysroot) -> None:
    """And one whose driver lacks a file names that."""
    context, need = ProbeContext(sysroot=str(sysroot)), Need("cpufreq:x", "cpufreq", "cpuinfo_avg_freq")
    assert "/sys/devices/system/cpu/cpufreq/policy0 is not there" in str(probe_cpufreq(need, context).reason)
    write_policies(sysroot, {0: ("0", 1000)}, "scaling_cur_freq")
    assert "has no cpuinfo_avg_freq" in str(probe_cpufreq(need, context).reason)
    assert probe_cpufreq(Need("cpufreq:y", "cpufreq", "scaling_cur_freq"), context) == AVAILABLE


def test_policies_are_in_the_order_of_their_numbers(sysroot: Sysroot) -> None:
    """What else lies there (boost, a driver's own folder) is none."""
    for name in ("policy10", "policy2", "policy0"):
        sysroot.write(f"{POLICIES}/{name}/affected_cpus", "0\n")
    sysroot.write(f"{POLICIES}/boost", "1\n")
    assert list_policies(str(sysroot)) == ["policy0", "policy2", "policy10"]


@pytest.mark.spec("CAT-12", "SRC-7")
def test_the_chain_is_tried_in_its_order_and_a_backend_never_seen_says_so(omn: Command, sysroot: Sysroot) -> None:
    """APERF/MPERF first, which have no snapshot; then cpufreq's files, through a tree, said to be no real hardware."""
    sysroot.write("/proc/cpuinfo", X86)
    write_policies(sysroot, {0: ("0 5", 2_100_000)}, "cpuinfo_avg_freq")
    ran = omn("power.freq", "-m", "snapshot", "-e", "raw", "--system", "--format", "json", OMN_SYSROOT=str(sysroot))
    assert ran.code == 0, ran.stderr
    links = [(link["backend"], link["state"]) for link in ran.result["chain"]]
    assert links == [("pmu:msr", "mode"), (AVERAGE, "selected")]
    assert ran.result["unverified"] == [
        f"power.freq through {AVERAGE} was never run on its hardware: trees of cpufreq as its documentation lays it out"
    ]
    assert [(row["key"]["cpu"], row["attrs"]["freq_hz"]) for row in ran.result["raw"]] == [
        (0, 2_100_000_000),
        (5, 2_100_000_000),
    ]


def test_this_machines_clocks_are_those_of_its_own_file(catalog: Catalog, registry: Registry) -> None:
    """Each cpu's figure is one that /proc/cpuinfo stated around the reading, where it states any."""
    before = parse_cpu_clocks(Path("/proc/cpuinfo").read_bytes())
    if not any(before.values()):
        pytest.skip("/proc/cpuinfo states no clock here")
    if has_clock_counters(Path("/proc/cpuinfo").read_bytes()):
        pytest.skip("the clock is counted here, and is another one at each reading")
    resolved = resolve_onto(catalog.entries["power.freq"], CPUINFO, Target("system"), keys=("cpu",))
    factory = registry.load(registry.collectors["power.freq", CPUINFO].factory)
    with Driver(factory(), resolved, bind_machine()) as driver:
        assert dict(pick(driver.sample())) == before

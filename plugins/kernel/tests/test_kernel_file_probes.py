"""Probes of files, releases, capabilities, cgroups and pressure, on machines made of files."""

from __future__ import annotations

import os

import pytest
from another_user import run_as_another_user
from omn_kernel.cgroup import CgroupPlace
from omn_kernel.probes import files
from omn_kernel.probes.basic import probe_capability, probe_kernel, probe_nothing, probe_preload
from omn_kernel.probes.files import probe_cgroup1, probe_cgroup2, probe_line, probe_path, probe_psi
from omn_kernel.probes.tracepoints import probe_tracepoint

from omn_core.api import Need, Probe, ProbeContext, State
from omn_core.testing.sysroot import Sysroot


def need(kind: str, argument: str = "") -> Need:
    return Need(f"{kind}:{argument}", kind, argument)


def at(sysroot: Sysroot) -> ProbeContext:
    return ProbeContext(None, str(sysroot))


@pytest.mark.parametrize(
    ("release", "wanted", "state"),
    [
        ("6.18.44-fc-v669", "5.8", State.AVAILABLE),
        ("6.18.44", "6.18.44", State.AVAILABLE),
        ("6.18.0-rc3", "6.18", State.AVAILABLE),
        ("5.10.0-28-cloud-amd64", "5.11", State.MISSING),
        ("6.9", "6.18", State.MISSING),
        ("unknown", "5.8", State.UNKNOWN),
    ],
)
def test_a_release_is_compared_by_its_numbers(sysroot: Sysroot, release: str, wanted: str, state: State) -> None:
    """6.18 is later than 6.9, and what stands behind the numbers is the distribution's."""
    sysroot.write("/proc/sys/kernel/osrelease", release + "\n")
    assert probe_kernel(need("kernel>=", wanted), at(sysroot)).state is state


def test_a_capability_in_effect_is_available(sysroot: Sysroot) -> None:
    """And one that is not is restricted, and one that Linux has not is missing."""
    sysroot.write("/proc/self/status", "CapEff:\t0000004000000000\nCapPrm:\t0\nCapBnd:\tffffffffff\n")
    assert probe_capability(need("cap", "perfmon"), at(sysroot)).state is State.AVAILABLE
    refused = probe_capability(need("cap", "bpf"), at(sysroot))
    assert (refused.state, refused.reason) == (State.RESTRICTED, "CAP_BPF is missing")
    assert probe_capability(need("cap", "fly"), at(sysroot)).state is State.MISSING


def test_without_a_status_a_capability_is_unknown(sysroot: Sysroot) -> None:
    """What cannot be read is not no."""
    assert probe_capability(need("cap", "bpf"), at(sysroot)).state is State.UNKNOWN


@pytest.mark.spec("PRB-1")
def test_a_path_is_available_missing_or_restricted(sysroot: Sysroot) -> None:
    """Closed is not absent: the permission is named."""
    sysroot.write("/proc/vmstat", "x 1\n").write("/proc/slabinfo", "")
    assert probe_path(need("path", "/proc/vmstat"), at(sysroot)).state is State.AVAILABLE
    assert probe_path(need("path", "/proc/absent"), at(sysroot)).state is State.MISSING
    assert probe_path(need("path", "/proc/vmstat/below"), at(sysroot)).state is State.MISSING
    assert probe_path(need("path", "/proc"), at(sysroot)).state is State.AVAILABLE


@pytest.mark.spec("PRB-1")
def test_a_line_is_asked_by_its_whole_name(sysroot: Sysroot) -> None:
    """Before a space or a colon; a file without it is missing, as one that is not there."""
    sysroot.write("/proc/stat", "cpu 1 2\nctxt 5\n").write("/proc/self/status", "Name:\tx\nThreads:\t1\n")
    assert probe_line(need("line", "/proc/stat:ctxt"), at(sysroot)).state is State.AVAILABLE
    assert probe_line(need("line", "/proc/self/status:Threads"), at(sysroot)).state is State.AVAILABLE
    missing = probe_line(need("line", "/proc/stat:ctx"), at(sysroot))
    assert (missing.state, missing.reason) == (State.MISSING, "this kernel writes no ctx in /proc/stat")
    absent = probe_line(need("line", "/proc/self/sched:se.nr_migrations"), at(sysroot))
    assert (absent.state, absent.reason) == (State.MISSING, "this kernel has no /proc/self/sched")


def test_a_closed_path_names_its_mode(sysroot: Sysroot, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mode and the owner say who may read it."""
    sysroot.write("/proc/slabinfo", "")
    sysroot.path("/proc/slabinfo").chmod(0o400)

    def refuse(path: str, flags: int) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    answer = probe_path(need("path", "/proc/slabinfo"), at(sysroot))
    assert answer.state is State.RESTRICTED
    assert "mode 0400" in (answer.reason or "")


def test_a_path_that_answers_otherwise_is_unknown(sysroot: Sysroot, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that says neither yes nor no is said."""

    def fail(path: str, flags: int) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "open", fail)
    assert probe_path(need("path", "/proc/x"), at(sysroot)) == Probe(
        State.UNKNOWN, "/proc/x answers Input/output error"
    )


def test_pressure_is_asked_by_reading_it(sysroot: Sysroot) -> None:
    """A kernel without it has no file."""
    assert probe_psi(need("psi"), at(sysroot)).state is State.MISSING
    sysroot.write("/proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
    assert probe_psi(need("psi"), at(sysroot)).state is State.AVAILABLE


def test_pressure_that_is_switched_off_says_so(sysroot: Sysroot, monkeypatch: pytest.MonkeyPatch) -> None:
    """psi=0 leaves the files and refuses the read with EOPNOTSUPP."""

    def refuse(sysroot: str, path: str) -> bytes:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(files, "read_file", refuse)
    assert "psi=0" in (probe_psi(need("psi"), at(sysroot)).reason or "")


MOUNTS = """1 0 0:2 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
2 0 0:3 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""


def test_a_v1_controller_is_one_that_is_mounted(sysroot: Sysroot) -> None:
    """cgroup2 is no v1 controller."""
    sysroot.write("/proc/self/mountinfo", MOUNTS)
    assert probe_cgroup1(need("cgroup1", "memory"), at(sysroot)).state is State.AVAILABLE
    assert probe_cgroup1(need("cgroup1", "perf_event"), at(sysroot)).state is State.MISSING
    assert probe_cgroup1(need("cgroup1", "unified"), at(sysroot)).state is State.MISSING


@pytest.fixture
def cgroup2(sysroot: Sysroot) -> Sysroot:
    """This process in /a/b; the memory controller on in /a, and in /z."""
    sysroot.write("/proc/self/mountinfo", MOUNTS).write("/proc/self/cgroup", "0::/a/b\n")
    base = "/sys/fs/cgroup/unified"
    sysroot.write(f"{base}/a/b/cgroup.procs", "")
    sysroot.write(f"{base}/a/memory.stat", "anon 1\npswpin 2\n")
    sysroot.write(f"{base}/z/memory.stat", "anon 1\nzswpin 2\n").write(f"{base}/z/memory.peak", "7\n")
    return sysroot


@pytest.mark.spec("PRB-8")
@pytest.mark.parametrize(
    ("argument", "state"),
    [
        ("memory.stat:pswpin", State.AVAILABLE),
        ("memory.stat:zswpin", State.MISSING),
        ("memory.stat:psw", State.MISSING),
        ("memory.peak:value", State.AVAILABLE),
        ("io.stat:rbytes", State.MISSING),
    ],
)
def test_a_cgroup2_key_is_read_in_the_nearest_cgroup_that_has_the_file(
    cgroup2: Sysroot, argument: str, state: State
) -> None:
    """The one above this process decides, not another's; below the root only where none above has it."""
    assert probe_cgroup2(need("cgroup2", argument), at(cgroup2)).state is state


@pytest.mark.spec("REQ-11")
def test_a_cgroup_is_asked_itself_on_cgroup2(cgroup2: Sysroot) -> None:
    """What the target's own folder holds counts: a file without its controller, another hierarchy alone."""
    folder = cgroup2.path("/sys/fs/cgroup/asked")
    cgroup2.write("/sys/fs/cgroup/asked/memory.stat", "anon 1\n")
    here = ProbeContext("cgroup", str(cgroup2), CgroupPlace("/asked", str(folder)))
    assert probe_cgroup2(need("cgroup2", "memory.stat:anon"), here).state is State.AVAILABLE
    lacking = probe_cgroup2(need("cgroup2", "io.stat:value"), here)
    assert (lacking.state, lacking.reason) == (
        State.MISSING,
        "cgroup '/asked' has no io.stat: no controller that keeps it is on there",
    )
    there = ProbeContext("cgroup", str(cgroup2), CgroupPlace("/asked", legacy={"memory": "/anywhere"}))
    elsewhere = probe_cgroup2(need("cgroup2", "memory.stat:anon"), there)
    assert (elsewhere.state, elsewhere.reason) == (State.MISSING, "cgroup '/asked' stands in memory alone")


@pytest.mark.spec("REQ-11")
def test_a_cgroup_is_asked_itself_of_a_v1_controller(sysroot: Sysroot) -> None:
    """The controller is mounted, and this cgroup is not in its hierarchy."""
    sysroot.write("/proc/self/mountinfo", "35 31 0:32 / /m rw - cgroup cgroup rw,memory\n")
    here = ProbeContext("cgroup", str(sysroot), CgroupPlace("/asked", "/unified/asked"))
    answer = probe_cgroup1(need("cgroup1", "memory"), here)
    assert (answer.state, answer.reason) == (State.MISSING, "cgroup '/asked' stands in unified alone")
    inside = ProbeContext("cgroup", str(sysroot), CgroupPlace("/asked", legacy={"memory": "/m/asked"}))
    assert probe_cgroup1(need("cgroup1", "memory"), inside).state is State.AVAILABLE


def test_a_machine_without_cgroup2_says_so(sysroot: Sysroot) -> None:
    """v1 alone has no such file."""
    sysroot.write("/proc/self/mountinfo", MOUNTS.splitlines()[0]).write("/proc/self/cgroup", "4:memory:/\n")
    answer = probe_cgroup2(need("cgroup2", "memory.stat:anon"), at(sysroot))
    assert (answer.state, answer.reason) == (State.MISSING, "cgroup2 is not mounted here")


def test_a_tracepoint_without_tracefs_says_what_is_not_mounted(sysroot: Sysroot) -> None:
    """omn mounts nothing, and says what would be mounted."""
    sysroot.write("/proc/self/mountinfo", MOUNTS)
    answer = probe_tracepoint(need("tp", "sched/sched_switch"), at(sysroot))
    assert (answer.state, answer.reason) == (State.MISSING, "tracefs is not mounted")
    assert "mount -t tracefs" in (answer.remedy or "")


def test_a_tracepoint_is_found_in_tracefs(sysroot: Sysroot) -> None:
    """One that is not there is missing by name."""
    sysroot.write("/proc/self/mountinfo", "1 0 0:2 / /sys/kernel/tracing rw - tracefs tracefs rw\n")
    sysroot.write("/sys/kernel/tracing/events/sched/sched_switch/id", "321\n")
    assert probe_tracepoint(need("tp", "sched/sched_switch"), at(sysroot)).state is State.AVAILABLE
    missing = probe_tracepoint(need("tp", "sched/sched_wait"), at(sysroot))
    assert (missing.state, missing.reason) == (State.MISSING, "this kernel has no tracepoint sched/sched_wait")


def test_a_preload_takes_a_dynamic_loader(sysroot: Sysroot) -> None:
    """A process that was started by one has it mapped."""
    sysroot.write("/proc/self/maps", "7f00-7f01 r-xp 0 08:02 1 /lib64/ld-linux-x86-64.so.2\n")
    assert probe_preload(need("preload"), at(sysroot)).state is State.AVAILABLE
    sysroot.write("/proc/self/maps", "0040-0041 r-xp 0 08:02 1 /usr/bin/static\n")
    assert probe_preload(need("preload"), at(sysroot)).state is State.MISSING


def test_nothing_is_always_there(sysroot: Sysroot) -> None:
    """A backend that needs nothing needs no machine."""
    assert probe_nothing(need("tool-free"), at(sysroot)).state is State.AVAILABLE


def test_a_file_closed_to_another_user_is_restricted_on_this_machine() -> None:
    """The real thing: a user who is not the owner is told the mode and not that the file is absent."""
    printed = run_as_another_user(
        """
        from omn_core.api import Need, ProbeContext
        from omn_kernel.probes.files import probe_path
        """,
        """
        answer = probe_path(Need('path:/proc/1/environ', 'path', '/proc/1/environ'), ProbeContext())
        print(answer.state.value, answer.reason)
        """,
    )
    assert printed.startswith("restricted /proc/1/environ is closed to this user (mode 0400")

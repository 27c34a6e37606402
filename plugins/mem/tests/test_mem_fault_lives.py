"""Records of page faults of programs whose lives are awkward, and in rooms that are narrow."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from another_user import run_as_another_user
from compiled import compile_c
from omn_kernel.probes.events import probe_perf
from soak import iter_left_behind

from omn_core.api import Need, ProbeContext, State
from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry
from omn_core.testing.fixtures import Command

FORKING = """
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) void touch(char *at) { for (int page = 0; page < 20; page++) at[page * 4096L] = 1; }
int main(void) {
    for (int child = 0; child < 500; child++) {
        if (fork() == 0) {
            char *at = mmap(0, 20 * 4096L, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            madvise(at, 20 * 4096L, MADV_NOHUGEPAGE);
            touch(at);
            _exit(0);
        }
        wait(0);
    }
    return 0;
}
"""

pytestmark = pytest.mark.skipif(
    probe_perf(Need("", "perf", "sw:page-faults"), ProbeContext("launch")).state is not State.AVAILABLE,
    reason="perf events are closed to this user",
)


def trace(omn: Command, *argv: str) -> dict[str, Any]:
    ran = omn("mem.faults", "-m", "trace", "-e", "raw", "--format", "json", "--", *argv)
    assert ran.code == 0, ran.stderr
    assert ran.result["losses"]["dropped"] == 0
    assert ran.result["fields"]["delivered"] == ran.result["fields"]["counted"] == ran.result["events_seen"]
    return ran.result


@pytest.mark.spec("KRN-8", "EVT-6")
def test_each_of_five_hundred_children_is_named_and_counted(omn: Command, tmp_path: Path) -> None:
    """Twenty pages each, in the function that touches them, under the child's own number and its parent's name."""
    program = compile_c(tmp_path, "forking", FORKING, "-O0", "-fno-omit-frame-pointer")
    result = trace(omn, str(program))
    touched = Counter(event["key"]["task"] for event in result["raw"] if event.get("stack", [""])[0] == "touch")
    assert sorted(touched.values()) == [20] * 500
    assert {event["key"]["comm"] for event in result["raw"] if event["key"]["task"] in touched} == {"forking"}


def test_a_program_that_executes_another_is_followed_into_it(omn: Command, tmp_path: Path) -> None:
    """Before the execve it is the shell, after it the other: by name, and by the file that the code stands in."""
    program = compile_c(tmp_path, "other", "int main(void) { return 0; }")
    script = tmp_path / "first"
    script.write_text(f"#!/bin/sh\nexec {program}\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    ran = omn(
        "mem.faults", "-m", "trace", "-e", "count", "--keys", "comm,object", "--format", "json", "--", str(script)
    )
    assert ran.code == 0, ran.stderr
    seen = {(one["key"]["comm"], one["key"]["object"]) for one in ran.result["series"]}
    assert ("other", str(program)) in seen
    assert not any(comm != "other" and holder == str(program) for comm, holder in seen)
    assert {comm for comm, _ in seen} >= {"first", "other"}


def test_a_program_that_ends_at_once_is_traced_whole(omn: Command, tmp_path: Path) -> None:
    """From its first instruction to its last, without a libc: what it faults in is its own page and its stack's."""
    source = 'void _start(void) { __asm__ volatile("mov $60, %%eax\\n xor %%edi, %%edi\\n syscall" ::: "memory"); }'
    program = compile_c(tmp_path, "brief", source, "-nostdlib", "-static")
    result = trace(omn, str(program))
    assert any(event.get("stack") == ["_start"] for event in result["raw"])


def test_a_narrow_room_is_enough_or_named(omn: Command, tmp_path: Path) -> None:
    """With 64 open files and 64 KiB of locked memory one thread is traced; a hundred threads are refused by name."""
    limits = {resource.RLIMIT_NOFILE: (64, 64), resource.RLIMIT_MEMLOCK: (65536, 65536)}

    def narrow() -> None:
        for limit, value in limits.items():
            resource.setrlimit(limit, value)

    asked = [*omn.argv, "mem.faults", "-m", "trace", "-e", "count", "--format", "json"]
    one = subprocess.run(
        [*asked, "--", "true"], env=omn.environment(), preexec_fn=narrow, capture_output=True, text=True, check=False
    )
    assert one.returncode == 0 or "no memory can be locked" in one.stderr, one.stderr
    herd = (
        "import threading, time\nfor _ in range(100): threading.Thread(target=time.sleep, args=(60,)).start()\nprint()"
    )
    with subprocess.Popen([sys.executable, "-u", "-c", herd], stdout=subprocess.PIPE) as many:
        assert many.stdout is not None
        many.stdout.readline()
        asked_many = [*asked, "--pid", str(many.pid), "-d", "50ms"]
        refused = subprocess.run(
            asked_many, env=omn.environment(), preexec_fn=narrow, capture_output=True, text=True, check=False
        )
        many.kill()
    assert refused.returncode == 1
    assert "raise the limit of open files (ulimit -n)" in refused.stderr


@pytest.mark.spec("KRN-7", "SEC-2")
def test_an_ordinary_user_traces_his_own_programs() -> None:
    """Where kernel.perf_event_paranoid is 2, in user mode, and it is said; switches are the kernel's and refused."""
    paranoid = int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    if paranoid > 2 or (os.geteuid() == 0 and paranoid < 2):
        pytest.skip(f"this machine's kernel.perf_event_paranoid is not 2 but {paranoid}")
    printed = run_as_another_user(
        """
        import ctypes
        from omn_core.catalog.load import load_catalog
        from omn_core.errors import MachineRefused
        from omn_core.model.request import Request, Session, parse_emit
        from omn_core.model.target import Target
        from omn_core.plugins import discover
        from omn_core.resolve.probes import ProbeTable
        from omn_core.resolve.session import resolve_session, validate_session
        from omn_core.run.runner import run
        registry = discover()
        catalog = load_catalog(registry)
        for row in registry.collectors.values():
            if row.backend == "pmu:sw:records":
                registry.load(row.factory)
        import omn_core.emit.answer, omn_core.run.binding, omn_kernel.probes.events, omn_kernel.targets
        """,
        """
        # PR_SET_DUMPABLE: who changed his user without an execve is closed to himself, and so is what he forks.
        ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
        for source, mode in (("mem.faults", "trace"), ("cpu.oncpu_time", "sample"), ("sched.switches", "trace")):
            request = Request(source, mode, (parse_emit("count"),), (), Target("launch", ("/bin/true",)))
            valid = validate_session(Session((request,)), catalog, registry)
            try:
                result = run(resolve_session(valid, registry, ProbeTable(registry), {}), registry).results[0]
            except MachineRefused as refused:
                print(source, "refused", "CAP_PERFMON" in str(refused))
            else:
                is_said = any("the kernel's own code is not sampled" in one for one in result.degraded)
                print(source, result.events_seen == result.fields["delivered"], is_said)
        """,
    )
    assert printed.splitlines() == ["mem.faults True True", "cpu.oncpu_time True True", "sched.switches refused True"]


def test_twenty_runs_leave_nothing_behind(registry: Registry, catalog: Catalog) -> None:
    """In one process: as many descriptors as after the first run, and no ring."""
    left = list(iter_left_behind(registry, catalog, 20))
    assert all(events for events, *_ in left)
    assert len({(descriptors, rings) for _, descriptors, rings, _ in left[1:]}) == 1
    assert left[-1][2] == 0

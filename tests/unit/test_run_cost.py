"""What a run cost, against accounts of known work."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
import run_subjects as subjects
from budget_subjects import SLOW_NS

from omn_core.api import BoundTarget, InTargetCost, ProcessHandle, Target
from omn_core.run import linux
from omn_core.run.cost import COARSE, CostAccount, ProcessCpu, ThreadCpu, make_accounts
from omn_core.run.runner import RunOptions, run

_MS = 1_000_000
# Burns so many milliseconds of its own cpu.
_BURN = "import sys, time\nwhile time.process_time() < int(sys.argv[1]) / 1000: pass"


def _run(*launch: str, subreaper: bool = True, duration_ns: int | None = None) -> subjects.Document:
    request = subjects.resolve("Threads", Target("launch", launch), mode="count")
    session = subjects.make_session(request, duration_ns=duration_ns)
    return run(session, subjects.make_registry(), RunOptions(become_subreaper=subreaper))


@pytest.mark.spec("CST-1")
def test_a_programs_cpu_is_its_own_and_of_all_it_waited_for() -> None:
    """What the kernel reports to a parent is what the cost says, less the held process's before its exec."""
    script = f"{sys.executable} -c '{_BURN}' 60; {sys.executable} -c '{_BURN}' 40"
    document = _run("sh", "-c", script)
    assert document.program is not None
    found = document.cost.target_ns
    assert found is not None
    assert found == document.program.cpu_ns
    assert found >= 100 * _MS
    assert 0 < (document.program.own_cpu_ns or 0) <= found - 100 * _MS
    usage = _usage_of("sh", "-c", script)
    assert found < 3 * usage


def _usage_of(*command: str) -> int:
    pid = os.posix_spawnp(command[0], command, os.environ)
    usage = os.wait4(pid, 0)[2]
    return int((usage.ru_utime + usage.ru_stime) * 1e9)


@pytest.mark.spec("CST-1")
def test_the_held_process_is_not_in_the_programs_cpu() -> None:
    """A program that does nothing costs about what it costs by itself, not the fork of a whole interpreter."""
    found = min(_run("true").cost.target_ns or 0 for _ in range(3))
    assert 0 < found < 20 * _MS


@pytest.mark.spec("CST-1")
def test_an_orphans_cpu_is_the_programs() -> None:
    """A process the program left behind is in the account for as long as it lives in the window."""
    code = (
        "import os, sys, time\n"
        "read, write = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    while time.process_time() < 0.08: pass\n"
        "    os.write(write, b'done')\n"
        "    time.sleep(1000)\n"
        "os.read(read, 4)\n"
    )
    document = _run(sys.executable, "-c", code)
    assert [one.ended for one in document.adopted] == [True]
    assert (document.cost.target_ns or 0) >= 80 * _MS


@pytest.mark.spec("CST-1")
def test_a_tree_ended_by_omn_is_accounted_whole() -> None:
    """Program, living child and reaped child of a stopped run are in the account."""
    burn = f"{sys.executable} -c '{_BURN}'"
    # The program's end would end the run, and what it waits for never comes: the duration ends it.
    script = f"{burn} 50; {burn} 1000000 & wait"
    document = _run("sh", "-c", script, duration_ns=1_000 * _MS)
    assert document.program is not None
    assert document.program.exit == {"signal": "SIGKILL"}
    assert (document.cost.target_ns or 0) >= 60 * _MS
    assert COARSE not in document.notes


@pytest.mark.spec("CST-1")
def test_a_running_process_is_accounted_from_the_opening() -> None:
    """Its cpu before the window is not in it; a child it reaps meanwhile is, in clock ticks, and that is said."""
    code = (
        "import os, sys, time\n"
        "def burn(ms):\n"
        "    end = time.process_time() + ms / 1000\n"
        "    while time.process_time() < end: pass\n"
        "burn(200)\n"
        "print(flush=True); sys.stdin.readline()\n"
        "burn(50)\n"
        "if os.fork() == 0:\n"
        "    burn(60); os._exit(0)\n"
        "os.wait()\n"
        "print(flush=True); sys.stdin.readline()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        account = ProcessCpu((child.pid,))
        child.stdout.readline()
        account.open()
        child.stdin.write(b"\n")
        child.stdin.flush()
        child.stdout.readline()
        account.close()
        found = account.total_ns()
        assert found is not None
        assert 90 * _MS <= found < 190 * _MS
        assert account.is_coarse
        child.communicate(b"\n")
    account.close()
    assert account.total_ns() is None


@pytest.mark.spec("CST-1")
def test_a_process_below_another_target_is_counted_once() -> None:
    """A parent and its child, both asked about, are one family: their cpu is what the two used."""
    code = (
        "import subprocess, sys\n"
        f"burn = 'input()\\n' + {_BURN!r} + '\\nprint(flush=True)\\ninput()'\n"
        "pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "child = subprocess.Popen([sys.executable, '-c', burn, '200'], **pipes)\n"
        "print(child.pid, flush=True); input()\n"
        "child.stdin.write(b'\\n'); child.stdin.flush(); child.stdout.readline()\n"
        "print(flush=True); input(); child.communicate(b'\\n')\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        account = ProcessCpu((parent.pid, int(parent.stdout.readline())))
        account.open()
        parent.stdin.write(b"\n")
        parent.stdin.flush()
        parent.stdout.readline()
        account.close()
        parent.communicate(b"\n")
    found = account.total_ns()
    assert found is not None
    assert 120 * _MS <= found < 300 * _MS


_ENDING = """
import os, signal, sys
def burn():
    import time
    end = time.process_time() + 0.3
    while time.process_time() < end: pass
if sys.argv[1] == "ignored":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
tell, hear = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    if sys.argv[1] == "ignored":
        burn()
    elif os.fork() == 0:
        burn(); os._exit(0)
    else:
        os.wait()
    os.write(tell[1], b"r"); os.read(hear[0], 1); os._exit(0)
os.read(tell[0], 1); os.close(tell[1]); os.close(hear[0])
print(flush=True); sys.stdin.readline()
os.write(hear[1], b"e"); os.read(tell[0], 1)
try:
    os.waitpid(child, 0)
except ChildProcessError:
    pass
print(flush=True); sys.stdin.readline()
"""


@pytest.mark.spec("CST-1")
@pytest.mark.parametrize(("fate", "is_known"), [("waited", True), ("ignored", False)])
def test_what_a_descendant_used_before_the_window_is_in_no_figure(fate: str, is_known: bool) -> None:
    """One that ended and was waited for takes its past out with it; one that nobody waited for leaves it unknown."""
    command = [sys.executable, "-c", _ENDING, fate]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        account = ProcessCpu((parent.pid,))
        parent.stdout.readline()
        account.open()
        parent.stdin.write(b"\n")
        parent.stdin.flush()
        parent.stdout.readline()
        account.close()
        parent.communicate(b"\n")
    found = account.total_ns()
    assert (found is not None) == is_known
    assert found is None or found < 200 * _MS


def test_a_thread_is_accounted_alone() -> None:
    """The thread's own time on a cpu, whatever its process does; gone is not known."""
    done, started = threading.Event(), threading.Event()

    def wait() -> None:
        started.set()
        done.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    started.wait()
    assert thread.native_id is not None
    account = ThreadCpu(os.getpid(), thread.native_id)
    account.open()
    account.close()
    idle_ns = account.total_ns()
    done.set()
    thread.join()
    # Python lets go of a thread before the kernel does.
    while os.path.exists(f"/proc/self/task/{thread.native_id}"):
        os.sched_yield()
    if idle_ns is None:
        pytest.skip("this kernel keeps no schedstat account (CONFIG_SCHED_INFO)")
    assert 0 <= idle_ns < 100 * _MS
    account.close()
    assert account.total_ns() is None


@pytest.mark.spec("CST-1")
def test_unknown_is_never_zero() -> None:
    """A mechanism without an account makes the whole share unknown and is named; omn's own stays known."""
    clock = iter([100, 300, 450]).__next__
    account = CostAccount(40, clock=clock)
    account.open([])
    account.close()
    cost = account.compute([("a.b", InTargetCost(None)), ("c.d", InTargetCost(5, left_out=2))])
    assert (cost.before_ns, cost.window_ns, cost.after_ns) == (60, 200, 150)
    assert (cost.in_target_ns, cost.in_target_unknown, cost.in_target_left_out) == (None, ("a.b",), 2)
    assert cost.percent is None
    assert cost.target_ns is None


def test_the_machine_has_no_cpu_of_its_own() -> None:
    """Nothing is weighed against the machine's cpu; a process asked about twice is counted once."""
    own = linux.find_stat(os.getpid())
    assert own is not None
    process = ProcessHandle(os.getpid(), None, own.start_ticks)
    system = BoundTarget(Target("system"), "system")
    one = BoundTarget(Target("pid", (os.getpid(),)), "process", (process,))
    again = BoundTarget(Target("pid", (os.getpid(), os.getpid())), "process", (process, process))
    assert make_accounts([system], None) == []
    assert len(make_accounts([system, one, again], None)) == 1


@pytest.mark.spec("RUN-17", "CST-1")
def test_what_a_stop_takes_is_after_the_window() -> None:
    """Detaching, and facts that are not about the window, cost neither the target nor its percentage."""
    request = subjects.resolve("LetsGoSlowly", Target("system"), module="budget_subjects")
    document = run(subjects.make_session(request, duration_ns=30 * _MS), subjects.make_registry(), RunOptions())
    assert document.cost.after_ns >= 2 * SLOW_NS
    assert document.cost.window_ns < 2 * SLOW_NS

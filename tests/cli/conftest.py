"""Processes in the states that a target can be in, and a shell without privileges."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture
def dead_pid() -> int:
    """The number of a process that has ended and been reaped."""
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


@pytest.fixture
def zombie() -> Iterator[int]:
    """A process that has ended and that nobody has reaped."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    yield child
    os.waitpid(child, 0)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits until the test ends."""
    with subprocess.Popen(["sleep", "600"]) as child:
        yield child
        child.kill()


@pytest.fixture
def strangers_sleeper() -> Iterator[int]:
    """A process of another user, waiting."""
    setpriv = shutil.which("setpriv")
    if os.geteuid() != 0 or setpriv is None:
        pytest.skip("another user's process takes root and setpriv to start")
    argv = [setpriv, "--reuid", "4711", "--regid", "4711", "--clear-groups", "sh", "-c", "echo ready; exec sleep 600"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        yield child.pid
        child.kill()


@pytest.fixture
def kernel_thread() -> int:
    """A thread of the kernel: it has no program and no memory of its own."""
    for name in os.listdir("/proc"):
        if name.isdigit() and os.path.exists(f"/proc/{name}/stat"):
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            if int(fields[6]) & 0x0020_0000:  # PF_KTHREAD, include/linux/sched.h
                return int(name)
    pytest.skip("no kernel thread is visible from this pid namespace")


@pytest.fixture
def without_privileges(omn: Any) -> Callable[..., Any]:
    """Run omn without any capability: the bounding set is emptied, so that not even root has one."""
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("setpriv (util-linux) is not installed here")
    prefix = [setpriv, "--bounding-set", "-all", "--inh-caps", "-all", "--ambient-caps", "-all", "--no-new-privs"]

    def run(*arguments: str, **changes: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*prefix, *omn.argv, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            env=omn.environment(**changes),
            check=False,
        )

    return run

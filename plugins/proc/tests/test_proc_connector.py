"""The process connector: its messages, their numbers, who belongs to a target, and what the machine may refuse."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest
from omn_proc.connector import Connector, Gaps, Message, Unanswered, What, explain, parse_message
from omn_proc.lineage import Lineage
from omn_proc.probes import probe_process_events

from omn_core.api import Need, ProbeContext, State
from omn_core.testing.sysroot import Sysroot

FORK = bytes.fromhex(
    "4c000000030000005500000000000000"  # nlmsghdr: 76 bytes, NLMSG_DONE
    "01000000010000005500000000000000"
    "28000000"  # cn_msg: CN_IDX_PROC, CN_VAL_PROC, number 0x55, 40 bytes
    "0100000001000000e0db3fa7a40b0000"  # PROC_EVENT_FORK on cpu 1
    "6d6500006d6500006c6600003b6600000000000000000000"
)


def make_message(sequence: int, cpu: int = 0, what: int = What.EXEC) -> Message:
    return Message(what, cpu, sequence, 0, 0, (0, 0, 0, 0, 0, 0))


def test_a_message_is_read_as_the_kernel_lays_it_out() -> None:
    """A captured fork: who made it, what was made, where and when; fewer bytes are no message."""
    message = parse_message(FORK)
    assert message is not None
    assert (message.what, message.cpu, message.sequence) == (What.FORK, 1, 0x55)
    assert message.ts_ns == 0x0BA4A73FDBE0
    assert message.numbers[:4] == (0x656D, 0x656D, 0x666C, 0x663B)
    assert parse_message(FORK[:-1]) is None
    assert parse_message(b"") is None


def test_a_name_is_what_stands_before_its_first_zero() -> None:
    """Sixteen bytes behind the thread and the process."""
    numbers = (7, 7, *(int.from_bytes(b"ab c\0\0\0\0xxxxxxxx"[at : at + 4], sys.byteorder) for at in range(0, 16, 4)))
    assert Message(What.COMM, 0, 0, 0, 0, numbers).comm == b"ab c"


@pytest.mark.spec("RUN-6")
def test_a_gap_in_a_cpus_numbers_is_what_was_dropped() -> None:
    """Each cpu counts for itself, from the first that was heard, across the end of its 32 bits."""
    gaps = Gaps()
    for message in (make_message(10), make_message(900, 1), make_message(11), make_message(14), make_message(901, 1)):
        gaps.advance(message)
    assert gaps.dropped == 2
    gaps.advance(make_message(2**32 - 1, 2))
    gaps.advance(make_message(1, 2))
    assert gaps.dropped == 3


@pytest.mark.spec("SRC-5")
def test_a_family_is_followed_from_fork_to_fork(sysroot: Sysroot) -> None:
    """What is there at first by its parents, what comes by its forks; a number that is used again is another's."""
    sysroot.write_process(1, ppid=0).write_process(10, ppid=1).write_process(11, ppid=10).write_process(20, ppid=1)
    lineage = Lineage(str(sysroot), [10])
    assert [lineage.find_membership(pid) for pid in (10, 11, 20, 1)] == [True, True, False, False]
    lineage.note_fork(11, 12)
    lineage.note_fork(20, 21)
    lineage.note_fork(12, 13)
    assert [lineage.find_membership(pid) for pid in (12, 13, 21)] == [True, True, False]
    lineage.note_fork(20, 13)
    assert lineage.find_membership(13) is False
    assert lineage.find_parent(13) == 20


@pytest.mark.spec("SRC-5")
def test_a_process_that_no_fork_told_of_is_looked_up_while_it_is_there(sysroot: Sysroot) -> None:
    """Gone unheard, nobody can tell whose it was: that is neither inside nor outside."""
    sysroot.write_process(1, ppid=0).write_process(10, ppid=1)
    lineage = Lineage(str(sysroot), [10])
    sysroot.write_process(30, ppid=10)
    assert lineage.find_membership(30) is True
    assert lineage.find_membership(31) is None
    lineage.note_fork(31, 32)
    assert lineage.find_membership(32) is None
    assert Lineage(str(sysroot), []).find_membership(31) is True


@pytest.mark.parametrize(
    ("error", "state", "said"),
    [
        (Unanswered(), State.MISSING, "CONFIG_PROC_EVENTS"),
        (PermissionError(errno.EPERM, "x"), State.RESTRICTED, "CAP_NET_ADMIN is missing"),
        (OSError(errno.ECONNREFUSED, "x"), State.MISSING, "first network namespace alone"),
        (OSError(errno.EPROTONOSUPPORT, "Protocol not supported"), State.MISSING, "has no process connector"),
    ],
)
def test_a_machine_that_does_not_tell_says_why(error: OSError | Unanswered, state: State, said: str) -> None:
    """Closed, absent and silent are three answers."""
    told = explain(error)
    assert told.state is state
    assert said in (told.reason or "")


IN_ANOTHER_NAMESPACE = """
from omn_proc.probes import probe_process_events
from omn_core.api import Need, ProbeContext
told = probe_process_events(Need("proc_events", "proc_events"), ProbeContext(None))
print(told.state.value, told.reason)
"""


@pytest.mark.parametrize(("namespace", "said"), [("-n", "first network namespace"), ("-pf", "this is a container")])
def test_another_namespace_is_told_nothing(namespace: str, said: str) -> None:
    """Messages may come there that others asked for, with numbers that mean other processes: no answer, no listener."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a namespace of the kind")
    argv = ["unshare", namespace, sys.executable, "-c", IN_ANOTHER_NAMESPACE]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("missing ")
    assert said in done.stdout


def open_connector() -> Connector:
    """Listen, or skip with the machine's reason."""
    told = probe_process_events(Need("proc_events", "proc_events"), ProbeContext(None))
    if told.state is not State.AVAILABLE:
        pytest.skip(told.reason or "")
    return Connector()


def test_another_listener_is_no_loss() -> None:
    """Answers to others have numbers too: they are no messages, and no gap."""
    ours = open_connector()
    for _ in range(5):
        Connector().close()
    ours.receive()
    assert (ours.gaps.dropped, ours.overruns) == (0, 0)
    ours.close()
    assert ours.fileno() == -1

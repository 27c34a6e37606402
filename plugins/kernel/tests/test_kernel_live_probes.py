"""Probes that ask the running kernel: whatever it answers must agree with what it then does."""

from __future__ import annotations

import errno
import os
import struct

import pytest
from omn_kernel.bpf import refusals
from omn_kernel.native import calls
from omn_kernel.perf.attributes import EventAttributes, Place, open_event
from omn_kernel.privileges import read_privileges
from omn_kernel.probes import bpf, events, netlink, prototypes, tracepoints
from omn_kernel.probes.netlink import make_family_request, parse_error, probe_netlink

from omn_core.api import Need, Probe, ProbeContext, State
from omn_core.plugins import Registry
from omn_core.testing.sysroot import Sysroot


def ask(registry: Registry, text: str, target: str | None = None) -> Probe:
    kind, _, argument = text.partition(":")
    row = registry.requirements[kind]
    answer = registry.load(row.probe)(Need(text, kind, argument), ProbeContext(target))
    assert isinstance(answer, Probe)
    return answer


def require(capability: str) -> None:
    if not read_privileges("/").has(capability):
        pytest.skip(f"this process is without CAP_{capability.upper()}")


@pytest.mark.spec("PRB-3")
def test_every_requirement_class_of_linux_is_answered(registry: Registry) -> None:
    """The classes that the specification lists for Linux have a row each, and a probe that answers its example."""
    listed = "kernel>= cap path btf bpf_prog bpf_map raw_tp tp fentry kprobe uprobe uprobe_multi follower perf pmu"
    for kind in f"{listed} cgroup2 cgroup1 psi netlink preload tool-free".split():
        row = registry.requirements[kind]
        text = row.example or kind
        argument = text.removeprefix(kind).removeprefix(":")
        answer = registry.load(row.probe)(Need(text, kind, argument), ProbeContext())
        assert isinstance(answer, Probe)
        assert answer.state is State.AVAILABLE or answer.reason


@pytest.mark.parametrize(("release", "is_charged"), [("5.10-rc3", True), ("6.12+", False), ("5.11.0", False)])
def test_the_locked_memory_limit_is_named_on_kernels_that_charge_it(
    monkeypatch: pytest.MonkeyPatch, release: str, is_charged: bool
) -> None:
    """Before 5.11 a refused map may be the limit's doing, whatever the release is called after its numbers."""
    monkeypatch.setattr(refusals.os, "uname", lambda: os.uname_result(("Linux", "here", release, "#1", "any")))
    monkeypatch.setattr(refusals.resource, "getrlimit", lambda _: (65536, 65536))
    answer = bpf._explain_locked_memory(Probe(State.RESTRICTED, "refused"), OSError(errno.EPERM, "no"))
    assert ("locked-memory limit, which is 65536 bytes" in (answer.reason or "")) is is_charged


@pytest.mark.spec("PRB-2")
def test_a_map_type_that_reads_available_can_be_made(registry: Registry) -> None:
    """The answer for a hash map is the one that making one gives."""
    answer = ask(registry, "bpf_map:hash")
    kind = calls.constant("BPF_MAP_TYPE_HASH")
    assert kind == 1
    try:
        os.close(calls.create_map(kind, 8, 8, 10))
    except PermissionError:
        assert answer.state is State.RESTRICTED
    else:
        assert answer.state is State.AVAILABLE


@pytest.mark.spec("PRB-2")
@pytest.mark.parametrize(
    "name",
    ["array", "stack_trace", "lpm_trie", "array_of_maps", "queue", "percpu_hash", "cgroup_array", "hash_of_maps"],
)
def test_a_map_type_of_every_kernel_is_available_to_the_privileged(registry: Registry, name: str) -> None:
    """Types that Linux 5.4 had are not refused for the shape they are asked with."""
    require("bpf")
    assert ask(registry, f"bpf_map:{name}").state is State.AVAILABLE


@pytest.mark.spec("PRB-2")
@pytest.mark.parametrize("name", ["task_storage", "inode_storage", "sk_storage", "ringbuf", "bloom_filter"])
def test_a_newer_map_type_is_never_unknown_to_the_privileged(registry: Registry, name: str) -> None:
    """A kernel has it or has it not."""
    require("bpf")
    assert ask(registry, f"bpf_map:{name}").state in (State.AVAILABLE, State.MISSING)


def test_a_type_that_nobody_knows_is_unknown(registry: Registry) -> None:
    """A word that is no type is not said to be missing here."""
    assert ask(registry, "bpf_map:carpet").state is State.UNKNOWN
    assert ask(registry, "bpf_prog:carpet").state is State.UNKNOWN
    assert ask(registry, "perf:carpet:x").state is State.UNKNOWN
    assert ask(registry, "perf:sw:carpet").state is State.UNKNOWN


@pytest.mark.spec("PRB-2")
@pytest.mark.parametrize("name", ["socket_filter", "tracepoint", "perf_event", "raw_tracepoint"])
def test_a_program_type_of_every_kernel_loads_for_the_privileged(registry: Registry, name: str) -> None:
    """Loaded, and a raw tracepoint attached."""
    require("bpf")
    require("perfmon")
    assert ask(registry, f"bpf_prog:{name}").state is State.AVAILABLE


@pytest.mark.spec("PRB-2")
def test_an_fentry_that_is_refused_is_restricted_and_not_missing(registry: Registry) -> None:
    """The type information has the function; whether it can be entered is what the load says."""
    if ask(registry, "btf").state is not State.AVAILABLE:
        pytest.skip("this kernel publishes no types")
    answer = ask(registry, "fentry:vfs_fsync_range")
    assert answer.state in (State.AVAILABLE, State.RESTRICTED)
    assert answer.state is State.AVAILABLE or "EPERM" in (answer.reason or "")


@pytest.mark.spec("PRB-4", "PRB-8")
def test_a_prototype_of_another_shape_is_missing(registry: Registry) -> None:
    """A bare name asks existence; a shape that the kernel has not reads missing before anything attaches."""
    if ask(registry, "btf").state is not State.AVAILABLE:
        pytest.skip("this kernel publishes no types")
    other = ask(registry, "fentry:vfs_fsync_range(int)")
    assert other.state is State.MISSING
    assert "struct file*, loff_t, loff_t, int" in (other.reason or "")
    same = ask(registry, "fentry:vfs_fsync_range(int|struct file *,loff_t,loff_t,int)")
    assert same.state is ask(registry, "fentry:vfs_fsync_range").state
    assert ask(registry, "raw_tp:sched_switch(int)").state is State.MISSING
    assert ask(registry, "raw_tp:no_such_tracepoint").state is State.MISSING
    assert ask(registry, "fentry:no_such_function").state is State.MISSING


@pytest.mark.spec("PRB-4")
@pytest.mark.parametrize(
    "text", ["btf", "raw_tp:sched_switch", "fentry:vfs_read", "follower", "bpf_prog:tp_btf", "bpf_prog:iter"]
)
def test_without_type_information_what_is_read_from_it_is_missing(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """A kernel that publishes none has nothing a program could be written against."""

    def absent(sysroot: str) -> None:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory")

    monkeypatch.setattr(prototypes, "read_kernel_btf", absent)
    monkeypatch.setattr(bpf, "read_kernel_btf", absent)
    assert ask(registry, text).state is State.MISSING


@pytest.mark.spec("PRB-2", "PRB-8")
def test_uprobe_multi_is_unknown_without_the_capability(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was asked, so nothing is known."""

    def refuse(kind: int, instructions: bytes, **_: int) -> int:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(calls, "load_program", refuse)
    assert ask(registry, "uprobe_multi").state is State.UNKNOWN


@pytest.mark.parametrize(
    ("number", "state"),
    [(errno.ENOENT, State.AVAILABLE), (errno.EINVAL, State.MISSING), (errno.EPERM, State.UNKNOWN)],
)
def test_uprobe_multi_is_asked_with_a_file_that_does_not_exist(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, number: int, state: State
) -> None:
    """A kernel that has it looks for the file, another refuses the link before."""

    def refuse(program: int, path: str, offsets: list[int]) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(calls, "load_program", lambda kind, instructions, **_: os.open("/dev/null", 0))
    monkeypatch.setattr(calls, "link_uprobe_multi", refuse)
    assert ask(registry, "uprobe_multi").state is state


@pytest.mark.spec("PRB-2")
def test_a_software_event_is_opened(registry: Registry) -> None:
    """Page faults of one's own task can be counted everywhere that perf events are."""
    answer = ask(registry, "perf:sw:page-faults")
    try:
        os.close(open_event(EventAttributes(1, 2, is_disabled=True, exclude_kernel=True), Place(pid=0)))
    except OSError:
        assert answer.state is not State.AVAILABLE
    else:
        assert answer.state is State.AVAILABLE


@pytest.mark.spec("PRB-5")
def test_a_machine_target_is_asked_on_a_cpu(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task's event says nothing of a cpu's: what is opened is what the target will need."""
    opened: list[Place] = []

    def note(attributes: EventAttributes, place: Place) -> int:
        opened.append(place)
        return os.open("/dev/null", os.O_RDONLY)

    monkeypatch.setattr(events, "open_event", note)
    ask(registry, "perf:sw:page-faults", "pid")
    ask(registry, "perf:sw:page-faults", "system")
    ask(registry, "perf:sw:page-faults", "cpu")
    assert opened[0] == Place(pid=0)
    assert all(place.pid == -1 and place.cpu >= 0 for place in opened[1:])


def refuse_the_kernel(attributes: EventAttributes, place: Place) -> int:
    """Answer as the kernel does at paranoid 2 without the capability."""
    if attributes.exclude_kernel:
        return os.open("/dev/null", os.O_RDONLY)
    raise PermissionError(errno.EACCES, "Permission denied")


@pytest.mark.spec("PRB-5")
@pytest.mark.parametrize(
    ("text", "target", "state"),
    [
        ("perf:sw:page-faults", "pid", State.AVAILABLE),
        ("perf:hw:cycles", "pid", State.AVAILABLE),
        ("perf:sw:context-switches", "pid", State.RESTRICTED),
        ("perf:sw:page-faults", "system", State.RESTRICTED),
    ],
)
def test_user_mode_alone_serves_what_the_program_raises(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, text: str, target: str, state: State
) -> None:
    """An event that only the kernel's code raises is asked with the kernel, and a machine is never asked without it."""
    monkeypatch.setattr(events, "open_event", refuse_the_kernel)
    answer = ask(registry, text, target)
    assert answer.state is state
    assert "perf_event_paranoid" in (answer.reason or "")


@pytest.mark.spec("PRB-5", "PRB-6")
@pytest.mark.parametrize("target", ["pid", "system"])
@pytest.mark.parametrize(("event", "spelling"), [("sw:cpu-clock", "software event cpu-clock"), ("hw:cycles", "cycles")])
def test_every_event_is_restricted_where_this_user_may_open_none(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, event: str, spelling: str, target: str
) -> None:
    """As Debian's kernels answer at paranoid 3: in user mode too, so that nothing is left to narrow to."""

    def refuse(attributes: EventAttributes, place: Place) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(events, "open_event", refuse)
    answer = ask(registry, f"perf:{event}", target)
    assert answer.state is State.RESTRICTED
    assert f"{spelling} is refused with EACCES" in (answer.reason or "")
    assert "kernel.perf_event_paranoid is" in (answer.reason or "")


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP])
def test_a_counter_that_the_machine_lacks_is_missing(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """A guest without a performance unit refuses so."""

    def refuse(attributes: EventAttributes, place: Place) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(events, "open_event", refuse)
    assert ask(registry, "perf:hw:cycles").state is State.MISSING


def test_a_unit_is_listed_or_missing(registry: Registry) -> None:
    """Every kernel with perf events lists the software unit."""
    if not os.path.isdir(tracepoints.DEVICES):
        pytest.skip(f"this kernel has no {tracepoints.DEVICES}")
    assert ask(registry, "pmu:software").state is State.AVAILABLE
    assert ask(registry, "pmu:carpet").state is State.MISSING


@pytest.mark.parametrize(
    ("number", "state"),
    [
        (errno.EACCES, State.RESTRICTED),
        (errno.ENOENT, State.MISSING),
        (errno.EINVAL, State.MISSING),
        (errno.EIO, State.UNKNOWN),
    ],
)
def test_a_kprobe_is_what_opening_it_says(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, number: int, state: State
) -> None:
    """Refused, no such function, a function no probe may stand on, and anything else."""

    def refuse(attributes: EventAttributes, place: Place) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(tracepoints, "read_unit_type", lambda sysroot, name: 8)
    monkeypatch.setattr(tracepoints, "open_event", refuse)
    assert ask(registry, "kprobe:vfs_read").state is state


def test_netlink_protocols_and_families_are_asked(registry: Registry) -> None:
    """route is everywhere; a family that nobody registered is missing."""
    if ask(registry, "netlink:route").state is not State.AVAILABLE:
        pytest.skip("no netlink socket can be opened here")
    assert ask(registry, "netlink:nlctrl").state is State.AVAILABLE
    assert ask(registry, "netlink:no-such-family").state is State.MISSING


def test_listing_a_protocols_sockets_is_asked_of_the_protocol(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The socket that lists opens on every kernel; one without the protocol's own module refuses to list."""
    if ask(registry, "netlink:route").state is not State.AVAILABLE:
        pytest.skip("no netlink socket can be opened here")
    assert ask(registry, "netlink:sock_diag").state is State.AVAILABLE
    monkeypatch.setitem(netlink._LISTED, "none_diag", 250)  # no kernel has a protocol of this number
    refused = ask(registry, "netlink:none_diag")
    assert (refused.state, "has no none_diag" in str(refused.reason)) == (State.MISSING, True)


def test_a_family_request_is_padded_and_terminated() -> None:
    """The name is an attribute of whole words, a NUL at its end."""
    message = make_family_request("TASKSTATS")
    assert len(message) % 4 == 0
    assert struct.unpack_from("=I", message)[0] == len(message)
    assert b"TASKSTATS\0" in message


@pytest.mark.spec("SEC-4")
def test_netlink_is_not_asked_where_a_folder_stands_for_the_machine(sysroot: Sysroot) -> None:
    """What it answers would be about the machine that the folder stands for no longer."""
    probe = probe_netlink(Need("netlink:route", "netlink", "route"), ProbeContext(sysroot=str(sysroot)))
    assert (probe.state, "a folder stands in" in str(probe.reason)) == (State.MISSING, True)


def test_a_short_netlink_answer_is_an_error() -> None:
    """And one that reports an error gives its number."""
    with pytest.raises(OSError, match="cut short"):
        parse_error(b"\0" * 10)
    assert parse_error(struct.pack("=IHHIIi", 20, 2, 0, 1, 0, -errno.ENOENT)) == errno.ENOENT
    assert parse_error(struct.pack("=IHHII", 16, 0x10, 0, 1, 0)) == 0


def test_a_netlink_socket_that_is_refused_is_restricted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A seccomp filter may close it."""

    def refuse(*arguments: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("socket.socket", refuse)
    for name in ("route", "tcp_diag"):
        assert probe_netlink(Need(f"netlink:{name}", "netlink", name), ProbeContext()).state is State.RESTRICTED

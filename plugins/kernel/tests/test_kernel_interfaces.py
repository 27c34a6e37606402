"""Interfaces and the network namespaces they are in: found, entered by one thread alone, refused by a sentence."""

from __future__ import annotations

import os
import re
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator

import attrs
import pytest
from another_user import run_as_another_user
from omn_kernel.interfaces import Interface, bind_iface, get_interface, read_interfaces, split_interface
from omn_kernel.namespaces import (
    get_network,
    list_networks,
    open_netlink_socket,
    open_network_file,
    read_own_network,
    run_in_network,
)

from omn_core.api import MachineRefused, ProbeContext, Target
from omn_core.testing.sysroot import Sysroot

WAIT = "import sys; print('inside', flush=True); sys.stdin.read()"


@attrs.frozen
class Elsewhere:
    """A process in a network namespace of its own, in which there is a bridge beside lo."""

    pid: int
    bridge: str

    @property
    def inode(self) -> int:
        """What the kernel calls the namespace."""
        return os.stat(f"/proc/{self.pid}/ns/net").st_ino

    def run(self, *argv: str) -> None:
        """Run a command inside."""
        subprocess.run(["nsenter", f"--net=/proc/{self.pid}/ns/net", *argv], check=True, capture_output=True)


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    """Make the namespace, gone with its process."""
    missing = [tool for tool in ("unshare", "nsenter", "ip") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)}: not installed here")
    if os.geteuid() != 0:
        pytest.skip("only root can make a network namespace that root's capabilities enter")
    child = subprocess.Popen(
        ["unshare", "--net", "--", sys.executable, "-c", WAIT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        if child.stdout.readline() != b"inside\n":
            pytest.skip("no network namespace can be made here")
        made = Elsewhere(child.pid, "omn-inside")
        made.run("ip", "link", "add", "name", made.bridge, "type", "bridge")
        made.run("ip", "link", "set", "lo", "up")
        yield made
    finally:
        child.stdin.close()
        child.wait()
        child.stdout.close()


def list_own_namespaces() -> set[str]:
    return {os.readlink(f"/proc/self/task/{tid}/ns/net") for tid in os.listdir("/proc/self/task")}


@pytest.mark.parametrize(
    ("spelling", "parts"),
    [
        ("eth0", (None, "eth0")),
        ("blue/eth0", ("blue", "eth0")),
        ("pid:4711/eth0", ("pid:4711", "eth0")),
        ("/proc/1/ns/net/eth0", ("/proc/1/ns/net", "eth0")),
        ("blue/", ("blue", "")),
    ],
)
def test_the_last_slash_divides_a_namespace_from_an_interface(spelling: str, parts: tuple[str | None, str]) -> None:
    """An interface's name holds none."""
    assert split_interface(spelling) == parts


def test_an_interface_of_omns_own_namespace_is_found() -> None:
    """The index is what the kernel answers, and the key names the namespace too."""
    found = get_interface("lo", "/")
    own = os.stat("/proc/self/ns/net").st_ino
    assert (found.index, found.name) == (socket.if_nametoindex("lo"), "lo")
    assert found.key == f"{own}:{found.index}"
    assert found.namespace.is_own
    assert found.describe() == {"interface": "lo", "index": found.index, "netns_inode": own}


def test_the_interfaces_of_another_namespace_are_its_own(elsewhere: Elsewhere) -> None:
    """The bridge is there and not here; lo is in both, with one index and two keys."""
    there = get_network(f"pid:{elsewhere.pid}", "/")
    assert (there.inode, there.is_own) == (elsewhere.inode, False)
    assert {"lo", elsewhere.bridge} <= set(read_interfaces(there))
    assert elsewhere.bridge not in read_interfaces(read_own_network("/"))
    inside, here = get_interface(f"pid:{elsewhere.pid}/lo", "/"), get_interface("lo", "/")
    assert inside.index == here.index
    assert inside.key != here.key


def test_an_interface_is_bound_by_each_spelling_of_its_namespace(elsewhere: Elsewhere) -> None:
    """A process, the path of a file, and a name under /run/netns lead to the same interface; the name is listed."""
    spellings = [f"pid:{elsewhere.pid}", f"/proc/{elsewhere.pid}/ns/net"]
    name = f"omn-test-{elsewhere.pid}"
    subprocess.run(["ip", "netns", "attach", name, str(elsewhere.pid)], check=True)
    try:
        bound = [
            bind_iface(Target("iface", f"{one}/{elsewhere.bridge}"), ProbeContext("iface"))
            for one in (*spellings, name)
        ]
        listed = list_networks("/")
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)
    assert sum(one.is_own for one in listed) == 1
    assert [one.spelling for one in listed if one.inode == elsewhere.inode] == [name]
    places = [one.place for one in bound]
    assert all(isinstance(place, Interface) for place in places)
    assert {place.key for place in places} == {f"{elsewhere.inode}:{places[0].index}"}
    assert {one.scope for one in bound} == {"interface"}
    assert [one.described["netns"] for one in bound] == [*spellings, name]


def test_what_is_opened_inside_stays_that_namespaces_and_moves_no_thread(elsewhere: Elsewhere) -> None:
    """A file of /proc/net and a netlink socket show the bridge, read from out here."""
    there, before = get_network(f"pid:{elsewhere.pid}", "/"), list_own_namespaces()
    file = open_network_file(there, "dev", many_records=True)
    with open_netlink_socket(there, socket.NETLINK_ROUTE) as connection:
        connection.settimeout(10)
        # A dump of the links: RTM_GETLINK (18) with NLM_F_REQUEST and NLM_F_DUMP, and an empty ifinfomsg.
        connection.send(struct.pack("=IHHII16x", 32, 18, 0x301, 1, 0))
        assert elsewhere.bridge.encode() + b"\0" in connection.recv(65536)
    assert elsewhere.bridge.encode() in file.read()
    elsewhere.run("ip", "link", "delete", elsewhere.bridge)
    assert elsewhere.bridge.encode() not in file.read()
    file.close()
    assert list_own_namespaces() == before == {os.readlink("/proc/self/ns/net")}


def test_what_an_action_raises_inside_comes_out(elsewhere: Elsewhere) -> None:
    """As it would have been raised here."""
    there = get_network(f"pid:{elsewhere.pid}", "/")
    with pytest.raises(FileNotFoundError):
        open_network_file(there, "no-such-file")
    assert run_in_network(there, lambda: os.readlink("/proc/thread-self/ns/net")) == f"net:[{elsewhere.inode}]"


def test_a_namespace_whose_name_passed_on_is_not_entered(elsewhere: Elsewhere) -> None:
    """The file stands for another namespace than the one that was bound."""
    stale = attrs.evolve(get_network(f"pid:{elsewhere.pid}", "/"), inode=1)
    with pytest.raises(MachineRefused, match="another one than it was"):
        read_interfaces(stale)


def test_a_process_of_omns_own_namespace_needs_no_entering() -> None:
    """It is omn's own, whatever it is called."""
    assert get_network(f"pid:{os.getpid()}", "/").is_own
    assert get_interface(f"pid:{os.getpid()}/lo", "/").key == get_interface("lo", "/").key


@pytest.mark.parametrize(
    ("spelling", "sentence"),
    [
        ("lo0", r"no interface 'lo0' here; did you mean 'lo'\?"),
        ("blue-omn/eth0", "no network namespace is called 'blue-omn' under /run/netns; .*pid:NUMBER"),
        ("/no/such/file/eth0", "no '/no/such/file' to name a network namespace"),
        ("pid:999999999/eth0", "there is no process 999999999"),
        ("pid:sh/eth0", "'pid:sh' names no process"),
        ("/etc/passwd/eth0", "'/etc/passwd' is a file, and no namespace stands behind it"),
        ("/proc/self/ns/mnt/eth0", "a namespace of another kind"),
        ("pid:1/", "names no interface"),
    ],
)
def test_each_way_of_not_being_there_has_its_own_sentence(spelling: str, sentence: str) -> None:
    """Each names what was asked for, and what would serve."""
    with pytest.raises(MachineRefused) as caught:
        bind_iface(Target("iface", spelling), ProbeContext("iface"))
    assert re.search(sentence, str(caught.value)), str(caught.value)


def test_another_users_namespace_is_refused_by_the_capability(elsewhere: Elsewhere) -> None:
    """Looking at a process's namespace takes one capability, entering a named one another."""
    name = f"omn-test-{elsewhere.pid}"
    subprocess.run(["ip", "netns", "attach", name, str(elsewhere.pid)], check=True)
    try:
        printed = run_as_another_user(
            """
            from omn_kernel.interfaces import get_interface
            from omn_core.api import MachineRefused
            """,
            f"""
            for spelling in ("pid:{elsewhere.pid}/lo", "{name}/lo"):
                try:
                    get_interface(spelling, "/")
                except MachineRefused as refused:
                    print(refused)
            """,
        )
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)
    looking, entering = printed.splitlines()
    assert "ns/net: CAP_SYS_PTRACE is missing" in looking
    assert f"the network namespace '{name}' cannot be entered: CAP_SYS_ADMIN is missing" in entering


@pytest.fixture
def fixture_machine(sysroot: Sysroot) -> Sysroot:
    """A machine with two interfaces."""
    sysroot.link("/proc/self/ns/net", "net:[4026531840]")
    sysroot.write("/sys/class/net/lo/ifindex", "1\n").write("/sys/class/net/enp1s0/ifindex", "2\n")
    return sysroot.write("/proc/net/dev", "a table\n")


def test_a_sysroot_stands_for_one_namespace(fixture_machine: Sysroot) -> None:
    """Its interfaces and files are those of the folder."""
    found = get_interface("enp1s0", str(fixture_machine))
    assert found.key == "4026531840:2"
    file = open_network_file(found.namespace, "dev")
    assert file.read() == b"a table\n"
    file.close()
    with pytest.raises(MachineRefused, match="those there are enp1s0, lo"):
        get_interface("wlan9", str(fixture_machine))


def test_a_kernel_that_names_no_namespace_says_so(sysroot: Sysroot) -> None:
    """Without its inode an interface has no key."""
    with pytest.raises(MachineRefused, match="does not say which network namespace"):
        get_interface("lo", str(sysroot))

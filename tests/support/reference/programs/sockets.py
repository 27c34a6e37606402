"""Programs that send datagrams and make TCP connections, on the loopback or in a network namespace."""

from __future__ import annotations

from omn_core.testing.stepped import Workload, make_workload
from reference.programs.shapes import pace, repeat


def _enter(netns: str) -> str:
    """Return what has a program enter a network namespace."""
    return f"""
import ctypes, socket
place = os.open("/run/netns/{netns}", os.O_RDONLY)
assert ctypes.CDLL(None).setns(place, 0x40000000) == 0, "setns"
"""


def send_datagrams(netns: str, address: str, count: int, size_bytes: int) -> Workload:
    """Send so many datagrams of so many bytes to a host from a network namespace. Steps: `ready`, `sent`."""
    before = f"{_enter(netns)}out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)"
    body = _send(address, size_bytes)
    return repeat(f"send {count} datagrams", body, count, until="sent", before=before)


def send_steadily(netns: str, address: str, count: int, size_bytes: int, period_ns: int) -> Workload:
    """Send so many datagrams in each period, paced by the clock, until it is ended. Step: `ready`."""
    before = f"{_enter(netns)}out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)"
    body = f"for _ in range({count}):\n    {_send(address, size_bytes)}"
    return pace(f"send {count} datagrams a period", body, period_ns, before=before)


def _send(address: str, size_bytes: int) -> str:
    return f'out.sendto(bytes({size_bytes}), ("{address}", 9))'


def connect_locally(count: int, port: int) -> Workload:
    """Make so many TCP connections on the loopback, both ends its own, used once. Steps: `ready`, `connected`."""
    return make_workload(
        f"make {count} connections",
        f"""
import socket
step("ready")
listening = socket.create_server(("127.0.0.1", {port}))
held = []
for _ in range({count}):
    near = socket.create_connection(("127.0.0.1", {port}))
    far, _ = listening.accept()
    near.sendall(b"x")
    far.recv(1)
    held += [near, far]
step("connected")
""",
    )


def connect_and_close(count: int, port: int) -> Workload:
    """Make so many TCP connections on the loopback one after another, and close both ends. Steps: `ready`, `closed`."""
    before = f'import socket\nlistening = socket.create_server(("127.0.0.1", {port}))'
    body = f"""
near = socket.create_connection(("127.0.0.1", {port}))
far, _ = listening.accept()
near.close()
far.recv(1)
far.close()
"""
    return repeat(f"make and close {count} connections", body, count, until="closed", before=before)


def open_udp_sockets(count: int, datagrams: int) -> Workload:
    """Open and bind so many UDP sockets, and send datagrams to the first. Steps: `ready`, `opened`."""
    return make_workload(
        f"open {count} sockets",
        f"""
import socket
step("ready")
held = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range({count})]
for one in held:
    one.bind(("127.0.0.1", 0))
for _ in range({datagrams}):
    held[-1].sendto(b"x", held[0].getsockname())
    held[0].recv(1)
step("opened")
""",
    )


def ask_in_vain(netns: str, address: str, count: int) -> Workload:
    """Ask for so many TCP connections of a host that is not there, until each was asked for again by the kernel.

    Steps: `ready`, `repeated`. The second asking is a second after the first, the third two more after that.
    """
    return make_workload(
        f"ask for {count} connections in vain",
        f"""
{_enter(netns)}
import struct, subprocess
absent = ["lladdr", "02:00:00:00:00:99", "nud", "permanent", "dev", "ref0"]
subprocess.run(["ip", "neighbour", "replace", "{address}", *absent], check=True)
asking = [socket.socket() for _ in range({count})]
step("ready")
for one in asking:
    one.setblocking(False)
    one.connect_ex(("{address}", 9))
def repeated(one):
    told = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    return struct.unpack_from("I", told, 100)[0]  # tcpi_total_retrans
while not all(repeated(one) for one in asking):
    time.sleep(0.01)
step("repeated")
""",
    )

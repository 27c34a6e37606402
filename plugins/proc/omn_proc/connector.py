"""The kernel's process connector: netlink messages of each fork, exec and exit of the machine (<linux/cn_proc.h>).

It tells the machine's first network, user and pid namespace alone, and numbers processes as that one does. Before
Linux 6.6 listening takes CAP_NET_ADMIN. Each message has a number of the cpu that sent it, so that a gap counts what
was lost.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import os
import select
import socket
import struct
import time

import attrs

from omn_core.api import Probe, State

_NETLINK_CONNECTOR, _NETLINK_DONE = 11, 3
_PROCESSES = 1
_LISTEN, _IGNORE = 1, 2
"""NETLINK_CONNECTOR, NLMSG_DONE (<linux/netlink.h>), CN_IDX_PROC, PROC_CN_MCAST_LISTEN and _IGNORE (cn_proc.h)."""

_FORCE_RECEIVE_BUFFER = 33
"""SO_RCVBUFFORCE of <asm-generic/socket.h>: past the machine's limit, with CAP_NET_ADMIN."""

_HEADER = struct.Struct("=IHHII")
_CONNECTOR = struct.Struct("=IIIIHH")
_EVENT = struct.Struct("=IIQ")
_NUMBERS = struct.Struct("=6I")
_EVENT_AT = _HEADER.size + _CONNECTOR.size
_NUMBERS_AT = _EVENT_AT + _EVENT.size
_LENGTH = _NUMBERS_AT + _NUMBERS.size

_RECEIVE_BYTES = 16 << 20
"""What the kernel may hold for one listener: about ten thousand messages."""

_ANSWER_S = 1.0


class What(enum.IntEnum):
    """The kinds of message that are read here, by the kernel's numbers; zero answers a listener."""

    ANSWER = 0
    FORK = 0x1
    EXEC = 0x2
    COMM = 0x200
    EXIT = 0x8000_0000


@attrs.frozen
class Message:
    """One message: its kind, the cpu that sent it and its number there, CLOCK_MONOTONIC nanoseconds, and six numbers.

    `answers` is one more than the number that a listener chose for itself, where the message answers one.

    A fork's are the parent's thread and process and the child's, an exec's the thread and the process, an exit's the
    thread, the process, the status as wait(2) has it, the signal to the parent, and the parent's thread and process. A
    name's are the thread and the process; the other four hold the name.
    """

    what: int
    cpu: int
    sequence: int
    answers: int
    ts_ns: int
    numbers: tuple[int, ...]

    @property
    def comm(self) -> bytes:
        """The name that a COMM message holds."""
        return _NUMBERS.pack(*self.numbers)[8:].split(b"\0", 1)[0]


def parse_message(content: bytes) -> Message | None:
    """Parse a message of the connector, None for one that is too short to be of a process."""
    if len(content) < _LENGTH:
        return None
    _, _, sequence, answers, _, _ = _CONNECTOR.unpack_from(content, _HEADER.size)
    what, cpu, ts_ns = _EVENT.unpack_from(content, _EVENT_AT)
    return Message(what, cpu, sequence, answers, ts_ns, _NUMBERS.unpack_from(content, _NUMBERS_AT))


class Gaps:
    """The numbers of messages by cpu: what is missing between one and the next was dropped."""

    def __init__(self) -> None:
        self.dropped = 0
        self._last: dict[int, int] = {}

    def advance(self, message: Message) -> None:
        """Take a message in, and count those that its cpu sent since the last one that came."""
        last = self._last.get(message.cpu)
        self._last[message.cpu] = message.sequence
        if last is not None:
            self.dropped += (message.sequence - last - 1) % (1 << 32)


class Unanswered(Exception):
    """The kernel did not confirm a listener."""


class Connector:
    """A listener to the messages about processes. Raises OSError as the kernel does, Unanswered where it is silent."""

    def __init__(self, receive_bytes: int = _RECEIVE_BYTES) -> None:
        self.gaps = Gaps()
        self.overruns = 0
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_CONNECTOR)
        with contextlib.ExitStack() as failed:
            failed.callback(self._socket.close)
            self._make_room(receive_bytes)
            self._socket.bind((0, _PROCESSES))
            self._socket.setblocking(False)
            self._listen()
            failed.pop_all()

    def fileno(self) -> int:
        """Return the descriptor, readable when a message is there."""
        return self._socket.fileno()

    def receive(self) -> list[Message]:
        """Return the messages that are there, answers to listeners left out."""
        messages: list[Message] = []
        while (content := self._receive_one()) is not None:
            message = parse_message(content)
            if message is None:
                continue
            self.gaps.advance(message)
            if message.what != What.ANSWER:
                messages.append(message)
        return messages

    def close(self) -> None:
        """Listen no longer."""
        with contextlib.suppress(OSError), self._socket:
            self._send(_IGNORE, 0)

    def _receive_one(self) -> bytes | None:
        """Receive a message, None where none is there; an empty one tells that some did not fit."""
        try:
            return self._socket.recv(256)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            self.overruns += 1  # what did not fit is a gap in the numbers of what comes next
            return b""

    def _make_room(self, receive_bytes: int) -> None:
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, _FORCE_RECEIVE_BUFFER, receive_bytes)
        except PermissionError:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)

    def _send(self, operation: int, token: int) -> None:
        body = _CONNECTOR.pack(_PROCESSES, _PROCESSES, 0, token, 4, 0) + struct.pack("=I", operation)
        header = _HEADER.pack(_HEADER.size + len(body), _NETLINK_DONE, 0, 0, 0)
        self._socket.send(header + body)

    def _listen(self) -> None:
        """Ask to be told, and wait for the answer: others' answers come too, and so do messages, which are dropped."""
        token = int.from_bytes(os.urandom(3), "little")
        self._send(_LISTEN, token)
        deadline = time.monotonic() + _ANSWER_S
        waiting = select.poll()  # which takes descriptors past 1023, too
        waiting.register(self._socket, select.POLLIN)
        while waiting.poll(max(deadline - time.monotonic(), 0) * 1000):
            message = parse_message(self._receive_one() or b"")
            if message is not None and message.what == What.ANSWER and message.answers == token + 1:
                if message.numbers[0]:
                    raise OSError(message.numbers[0], os.strerror(message.numbers[0]))
                return
        raise Unanswered


def explain(error: OSError | Unanswered) -> Probe:
    """Return what a listener that failed says of this machine."""
    if isinstance(error, Unanswered):
        return Probe(
            State.MISSING,
            "the kernel tells of no process here: it is built without CONFIG_PROC_EVENTS, or this is a container",
            "run omn in the machine's first user and pid namespace",
        )
    if error.errno in (errno.EPERM, errno.EACCES):
        return Probe(
            State.RESTRICTED,
            "the process connector is closed to this user: CAP_NET_ADMIN is missing",
            "run omn as root, or give it CAP_NET_ADMIN",
        )
    if error.errno == errno.ECONNREFUSED:
        return Probe(
            State.MISSING,
            "the process connector tells the machine's first network namespace alone, and this is another",
            "run omn in that one",
        )
    return Probe(State.MISSING, f"this kernel has no process connector ({error.strerror})")

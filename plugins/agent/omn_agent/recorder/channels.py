"""Senders of a source: a listener and whoever connected to it, waited for as one descriptor."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

import attrs

from omn_core.api import MachineRefused

State = TypeVar("State")


@attrs.define(eq=False)
class Channel(Generic[State]):
    """A sender, and what its source keeps of it."""

    socket: socket.socket
    state: State


@attrs.define
class Channels(Generic[State]):
    """Whoever speaks to a source. `name` begins the reasons of what is lost by connections that break.

    `make_state` makes what is kept of a new sender; `longest` is how many bytes, or which message, is taken at once,
    and `most` how many senders there may be at a time, without a bound where it is None.
    """

    name: str
    make_state: Callable[[], State]
    longest: int
    most: int | None = None
    losses: dict[str, int] = attrs.field(factory=dict)
    _listener: socket.socket | None = None
    _epoll: select.epoll = attrs.field(factory=select.epoll)
    _channels: dict[int, Channel[State]] = attrs.field(factory=dict)

    @property
    def is_listening(self) -> bool:
        """Whether anybody can connect."""
        return self._listener is not None

    def listen(self, listener: socket.socket, backlog: int) -> None:
        """Listen at a socket that is bound. Raises OSError where that cannot be."""
        self._listener = listener
        listener.setblocking(False)
        listener.listen(backlog)
        self._epoll.register(listener, select.EPOLLIN)

    def fileno(self) -> int:
        """Return the epoll that the listener and its senders are in."""
        return self._epoll.fileno()

    def receive(self) -> Iterator[tuple[Channel[State], bytes]]:
        """Yield what arrived, and from whom, without waiting. A sender that went away is heard of no more."""
        while ready := self._epoll.poll(0):
            for descriptor, _ in ready:
                if self._listener is not None and descriptor == self._listener.fileno():
                    self._accept(self._listener)
                elif descriptor in self._channels:
                    yield from self._read(self._channels[descriptor])

    def drop(self, channel: Channel[State]) -> None:
        """Be done with a sender."""
        descriptor = channel.socket.fileno()
        if self._channels.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)
            channel.socket.close()

    def lose(self, reason: str) -> None:
        """Count one more of what is lost."""
        self.losses[reason] = self.losses.get(reason, 0) + 1

    def close(self) -> None:
        """Close the listener and its senders."""
        for channel in self._channels.values():
            channel.socket.close()
        if self._listener is not None:
            self._listener.close()
        self._epoll.close()

    def _accept(self, listener: socket.socket) -> None:
        try:
            accepted, _ = listener.accept()
        except OSError:  # it went away meanwhile
            return
        if self.most is not None and len(self._channels) >= self.most:
            accepted.close()
            self.lose(f"{self.name}_connection")
            return
        accepted.setblocking(False)
        self._channels[accepted.fileno()] = Channel(accepted, self.make_state())
        self._epoll.register(accepted, select.EPOLLIN)

    def _read(self, channel: Channel[State]) -> Iterator[tuple[Channel[State], bytes]]:
        try:
            content = channel.socket.recv(self.longest)
        except BlockingIOError:
            return
        except OSError:
            self.lose(f"{self.name}_connection")
            content = b""
        if content:
            yield channel, content
        else:
            self.drop(channel)


def bind_in_folder(folder: Path, name: str, kind: socket.SocketKind) -> socket.socket:
    """Return a socket at a name in a folder of any length of path: an address of its own has 108 bytes.

    Raises MachineRefused where none can be made there.
    """
    made = socket.socket(socket.AF_UNIX, kind)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        made.bind(f"/proc/self/fd/{descriptor}/{name}")
    except OSError as error:
        made.close()
        raise MachineRefused(f"no socket can be made in {str(folder)!r}: {error.strerror}") from error
    finally:
        os.close(descriptor)
    return made

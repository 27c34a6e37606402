"""The protocol, the parsers and the emit, without a server."""

from __future__ import annotations

import socket
import threading

import numpy as np
import pytest
from omn_redis.hit_ratio import HIT_RATIO
from omn_redis.info import CommandCount, parse_commands, parse_info
from omn_redis.probes import probe_redis
from omn_redis.resp import Connection, ProtocolError, ReplyError, render_command
from omn_redis.server import connect, parse_listening

from omn_core.api import Batch, Column, EmitSpec, MachineRefused, Need, ProbeContext, Series, State, TextStyle, Window
from omn_core.testing.sysroot import Sysroot


class Answering:
    """A socket that answers one packet with fixed bytes, cut into pieces, and then hangs up."""

    def __init__(self, *pieces: bytes) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, args=(pieces,), daemon=True)
        self._thread.start()

    def _serve(self, pieces: tuple[bytes, ...]) -> None:
        peer, _ = self._listening.accept()
        with peer:
            peer.recv(4096)
            for piece in pieces:
                peer.sendall(piece)

    def call(self) -> bytes:
        connection = Connection(("127.0.0.1", self.port), 5.0)
        try:
            return connection.call("INFO")
        finally:
            connection.close()
            self.close()

    def close(self) -> None:
        self._thread.join()
        self._listening.close()


def test_a_command_is_an_array_of_counted_strings() -> None:
    """Lengths are of bytes, not of letters."""
    assert render_command(("SET", "k", "é")) == b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\n\xc3\xa9\r\n"


def test_a_reply_in_pieces_is_read_whole() -> None:
    """A reply may be cut anywhere, in its length and in its last two bytes alike."""
    assert Answering(b"$", b"1", b"1\r", b"\nhello\r\nyou!\r", b"\n").call() == b"hello\r\nyou!"


def test_a_refusal_carries_the_servers_words() -> None:
    """An error reply is raised as what the server said."""
    with pytest.raises(ReplyError, match="NOAUTH Authentication required"):
        Answering(b"-NOAUTH Authentication required.\r\n").call()


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"$-5\r\n", b"$999999999999\r\n", b"x" * 5000, b"$10\r\nshort", b""]
)
def test_anything_else_is_no_server(answer: bytes) -> None:
    """Another protocol, a length that cannot be, a line without an end and half a reply are refused, not waited for."""
    with pytest.raises(ProtocolError):
        Answering(answer).call()


def test_info_lines_are_read_and_headings_are_not() -> None:
    """A value may hold colons; what is no line of the form is passed over."""
    assert parse_info(b"# Server\r\nos:Linux 6.1 x86_64\r\ntime:12:30\r\n\r\nnonsense\r\n") == {
        "os": "Linux 6.1 x86_64",
        "time": "12:30",
    }


def test_command_counts_of_an_old_server_lack_what_it_does_not_count() -> None:
    """Failures that were not counted are unknown, not zero."""
    old = parse_commands({"cmdstat_get": "calls=3,usec=40,usec_per_call=13.3", "other": "1"})
    assert old == {"get": CommandCount(3, 40_000, None, None)}


def test_listening_sockets_are_those_in_the_state_listen() -> None:
    """Addresses come as they are reached: a wildcard through the loopback, IPv6 in its own spelling."""
    header = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    lines = [
        "0: 00000000:18EB 00000000:0000 0A 0:0 0:0 0 0 0 25352 1",
        "1: 0100007F:18EB 0100007F:C000 01 0:0 0:0 0 0 0 25353 1",
        "2: 0100007F:0050 00000000:0000 0A 0:0 0:0 0 0 0 99 1",
        "3: 00000000000000000000000000000000:18EB 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 100 1",
    ]
    assert list(parse_listening(header + "\n".join(lines))) == [
        (("127.0.0.1", 6379), 25352),
        (("127.0.0.1", 80), 99),
        (("::1", 6379), 100),
    ]


def test_whatever_answers_as_another_process_is_refused(sysroot: Sysroot) -> None:
    """A port can lie in another network namespace: what answers there names itself, and that decides."""
    answering = Answering(b"$16\r\nprocess_id:4711\r\n\r\n")
    line = f"0: 0100007F:{answering.port:04X} 00000000:0000 0A 0:0 0:0 0 0 0 25352 1"
    sysroot.write("proc/12/net/tcp", "header\n" + line).link("proc/12/fd/6", "socket:[25352]")
    sysroot.write("proc/12/status", "Name:\tredis\nNSpid:\t12\t1\n")
    with pytest.raises(MachineRefused, match=r"says it is process 4711, not 1$"):
        connect(12, str(sysroot))
    answering.close()


def test_the_probe_says_what_is_missing(sysroot: Sysroot) -> None:
    """Without a list of sockets nothing is found, and the reason names the file."""
    need = Need("redis:resp", "redis", "resp")
    assert probe_redis(need, ProbeContext(sysroot=str(sysroot))).state is State.MISSING
    sysroot.write("proc/net/tcp", "header\n")
    assert probe_redis(need, ProbeContext(sysroot=str(sysroot))).state is State.AVAILABLE


def make_series(hits: list[int], misses: list[int], *, lower_bound: bool = False) -> Series:
    columns = {"hits": Column(np.array(hits)), "misses": Column(np.array(misses))}
    batch = Batch(np.zeros(len(hits), np.int64), attributes=columns) if hits else Batch.empty()
    return Series({}, batch, "lookups", "redis.ops", Window(0, 10**9), True, lower_bound, "pid 1")


@pytest.mark.spec("EMT-4")
def test_the_hit_ratio_is_of_sums() -> None:
    """A busy reading weighs more than an idle one: 90 of 100 and 0 of 2 are 90 of 102."""
    answer = HIT_RATIO.compute(make_series([90, 0], [10, 2], lower_bound=True), EmitSpec("hit_ratio"))
    assert answer == {"lower_bound": True, "hits": 90, "misses": 12, "ratio": 90 / 102}
    lines = HIT_RATIO.render(answer, "redis.ops", TextStyle())
    assert lines == ["88.24% found", ">= 90 hits, >= 12 misses"]


def test_a_window_without_lookups_has_no_ratio() -> None:
    """Nothing looked up is not nothing found."""
    answer = HIT_RATIO.compute(make_series([], []), EmitSpec("hit_ratio"))
    assert answer == {"lower_bound": False, "hits": 0, "misses": 0, "ratio": None}
    assert HIT_RATIO.render(answer, "redis.ops", TextStyle()) == ["no lookup"]

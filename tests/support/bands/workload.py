"""The reference workload of a family: `python workload.py FAMILY SECONDS RESULT`.

Each does what its family's sources hear, at the rate of a busy program and with a program's own work between. What it
did and the cpu time that it took, with that of its children, goes to RESULT as `{"cpu_ns": ..., "rounds": ...}`.
"""

from __future__ import annotations

import json
import mmap
import os
import resource
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

_PAGE = mmap.PAGESIZE


def compute(steps: int = 3000) -> int:
    """Work on the cpu alone: some hundred microseconds."""
    return sum(range(steps))


def spin() -> None:
    """Compute, for sources of the cpu and of the machine's parts."""
    compute(30_000)


def hand_over() -> None:
    """Hand a byte to another process and take it back, fifty times, with work at each turn; and a lock to a thread."""
    take_turns()
    there, back = os.pipe(), os.pipe()
    child = os.fork()
    for _ in range(50):
        if child:
            os.write(there[1], b"x")
            os.read(back[0], 1)
        else:
            os.read(there[0], 1)
            compute()
            os.write(back[1], b"x")
        compute()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    for descriptor in (*there, *back):
        os.close(descriptor)


def take_turns() -> None:
    """Have two threads wait for each other, ten times."""
    here, there = threading.Semaphore(1), threading.Semaphore(0)

    def play(mine: threading.Semaphore, other: threading.Semaphore) -> None:
        for _ in range(10):
            mine.acquire()
            compute()
            other.release()

    players = [threading.Thread(target=play, args=pair) for pair in ((here, there), (there, here))]
    for player in players:
        player.start()
    for player in players:
        player.join()


def start_programs() -> None:
    """Look at files, as a build does, and execute a program."""
    for path in sorted(Path("/etc").iterdir())[:50]:
        path.exists()
        compute(300)
    if os.fork() == 0:
        os.execv("/bin/true", ["true"])
    os.wait()


def write_files() -> None:
    """Write a file, have it on the disk, and read it back from there."""
    with tempfile.TemporaryFile(dir="/var/tmp") as file:
        for _ in range(16):
            file.write(b"x" * _PAGE)
            compute()
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        for page in range(16):
            os.pread(file.fileno(), _PAGE, page * _PAGE)
            compute()


def take_memory() -> None:
    """Take a mebibyte, touch each of its pages, fill some of it, and give it back; and many small objects."""
    with mmap.mmap(-1, 256 * _PAGE) as pages:
        for page in range(256):
            pages[page * _PAGE] = 1
        pages[: 64 * _PAGE] = b"x" * (64 * _PAGE)
    kept = [bytes(size) for size in range(512, 1536)]
    kept.clear()
    compute()


def talk() -> None:
    """Connect to oneself, send a mebibyte and some datagrams, and close."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as one:
        other, _ = server.accept()
        with other:
            for _ in range(16):
                one.sendall(b"x" * 65536)
                left = 65536
                while left:
                    left -= len(other.recv(left))
                compute()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.bind(("127.0.0.1", 0))
        for _ in range(16):
            datagrams.sendto(b"x", datagrams.getsockname())
            datagrams.recv(1)


ROUNDS: dict[str, Callable[[], None]] = {
    "cpu": spin,
    "gpu": spin,
    "io": write_files,
    "mem": take_memory,
    "net": talk,
    "power": spin,
    "proc": start_programs,
    "runtime": spin,
    "sched": hand_over,
}
"""What a round of each family's workload is."""


def main() -> None:
    """Go round for so long, and say what it took."""
    family, seconds, result = sys.argv[1], float(sys.argv[2]), Path(sys.argv[3])
    go_round = ROUNDS[family]
    rounds, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        go_round()
        rounds += 1
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu_s = sum(each.ru_utime + each.ru_stime for each in used)
    result.write_text(json.dumps({"cpu_ns": int(cpu_s * 1e9), "rounds": rounds}))


if __name__ == "__main__":
    main()

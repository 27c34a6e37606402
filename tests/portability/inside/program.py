"""Do a little of everything that a source can hear, for some seconds: what is launched in every cell.

As an ordinary user too: it writes on the guest's disk, which everybody may. PORTABILITY_LIFE_S says for how long.
"""

from __future__ import annotations

import glob
import mmap
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time

_PAUSE_S = 0.2
_PAGES = 512
_SMALL = b"x" * 4096


def main() -> None:
    """Go round until the time is over."""
    signal.signal(signal.SIGUSR1, lambda number, frame: None)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        with socket.create_connection(address) as one, server.accept()[0] as other:
            go_round(time.monotonic() + float(os.environ.get("PORTABILITY_LIFE_S", "1")), one, other)


def go_round(end: float, one: socket.socket, other: socket.socket) -> None:
    """Do each thing once, and again until the end, beside a connection that is there however short a look is."""
    while True:
        one.sendall(_SMALL)
        other.recv(len(_SMALL))
        start_programs()
        write_and_read()
        talk()
        pass_a_lock()
        write_at_once()
        with mmap.mmap(-1, _PAGES * mmap.PAGESIZE) as pages:
            for page in range(_PAGES):
                pages[page * mmap.PAGESIZE] = 1
        change_clocks()
        os.kill(os.getpid(), signal.SIGUSR1)
        for cpu in os.sched_getaffinity(0):
            os.sched_setaffinity(0, {cpu})
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
        if time.monotonic() >= end:
            return
        # The guest's cpus take turns on one of this machine's, and who measures needs it too.
        time.sleep(_PAUSE_S)


def change_clocks() -> None:
    """Set each cpu's clock to another frequency and back, where this user may."""
    for path in glob.glob("/sys/devices/system/cpu/cpufreq/policy*/scaling_setspeed"):
        if os.access(path, os.W_OK):
            for khz in ("1200000", "800000"):
                with open(path, "w") as file:
                    file.write(khz)


def start_programs() -> None:
    """Fork, execute, end, and be waited for."""
    subprocess.run(["/bin/true"], check=True)


def write_and_read() -> None:
    """Write to the disk, have it written through, and read it back past the cache."""
    with tempfile.NamedTemporaryFile(dir="/disk") as file:
        file.write(_SMALL * 16)
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        os.pread(file.fileno(), len(_SMALL), 0)


def talk() -> None:
    """Open a connection to oneself, be refused another, and send a datagram."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        with socket.create_connection(address) as one, server.accept()[0] as other:
            one.sendall(_SMALL)
            other.recv(len(_SMALL))
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as refused:
        refused.connect_ex(address)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.bind(("127.0.0.1", 0))
        datagrams.sendto(_SMALL, datagrams.getsockname())
        datagrams.recv(len(_SMALL))


def pass_a_lock() -> None:
    """Have two threads wait for each other."""
    here, there = threading.Semaphore(1), threading.Semaphore(0)

    def play(mine: threading.Semaphore, other: threading.Semaphore) -> None:
        for _ in range(20):
            mine.acquire()
            other.release()

    players = [threading.Thread(target=play, args=pair) for pair in ((here, there), (there, here))]
    for player in players:
        player.start()
    for player in players:
        player.join()


def write_at_once() -> None:
    """Have two threads append to one file past the cache: the kernel holds its lock until the disk has each block."""
    with tempfile.NamedTemporaryFile(dir="/disk") as file, mmap.mmap(-1, mmap.PAGESIZE) as block:

        def append() -> None:
            descriptor = os.open(file.name, os.O_WRONLY | os.O_DIRECT | os.O_APPEND)
            for _ in range(5):
                os.write(descriptor, block)
            os.close(descriptor)

        writers = [threading.Thread(target=append) for _ in range(2)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()


if __name__ == "__main__":
    main()

"""A program that counts its own waits, by kind, and stands still before and after: an account to hold programs to.

Where two threads must come upon each other they share a cpu under SCHED_FIFO: the one of the higher priority runs until
it waits, so that who waits for whom, and how often, is the program's and no chance.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
from compiled import compile_c
from event_backends import RECORDED, TYPED, needs_records
from omn_kernel.polled import read_file
from omn_kernel.procfs.process import list_threads, read_stat
from omn_kernel.procfs.task import find_status_field

from omn_core.api import EmitSpec, Losses, MachineRefused
from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry
from omn_core.testing.harness import Driver, bind_processes, resolve_onto

Rows = list[dict[str, Any]]

# Its first argument says which threads there are, its second how often each waits. Each byte that is read lets them do
# so, after which all stand still in read(2) and a line says what they counted. Each is let go on by a gate of its own:
# one that is done before another has begun would take the other's turn.
_SOURCE = """
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#define SAY 3
static int rounds, gates[4][2], parked[2], there[2], back[2], asked[2], held[2], file, faults;
static uint32_t word, answer;
static long counted[SAY];
static char *page;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void count(int what) { __atomic_add_fetch(&counted[what], 1, __ATOMIC_SEQ_CST); }
static void let(int to[2]) { char byte = 0; if (write(to[1], &byte, 1) != 1) exit(2); }
static void await(int from[2]) { char byte; if (read(from[0], &byte, 1) != 1) exit(2); }
static void park(int *gate) { let(parked); await(gate); }
static void take_turns(int priority) {
    cpu_set_t cpus, one;
    int cpu = 0;
    struct sched_param given = {priority};
    if (sched_getaffinity(0, sizeof cpus, &cpus)) exit(3);
    while (!CPU_ISSET(cpu, &cpus)) cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) || sched_setscheduler(0, SCHED_FIFO, &given)) exit(3);
}
static void wait_while(uint32_t *at, uint32_t value, const struct timespec *until) {
    long failed = syscall(SYS_futex, at, FUTEX_WAIT_PRIVATE, value, until, 0, 0);
    count(failed == 0 ? 0 : errno == EAGAIN ? 1 : 2);
}
static void change(uint32_t *at) {
    __atomic_add_fetch(at, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, at, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}
static uint32_t look(uint32_t *at) { return __atomic_load_n(at, __ATOMIC_SEQ_CST); }
static void *ask(void *gate) {
    for (park(gate);; park(gate))
        for (int i = 0; i < rounds; i++) {
            uint32_t before = look(&answer);
            change(&word);
            while (look(&answer) == before) wait_while(&answer, before, 0);
        }
}
static void *reply(void *gate) {
    uint32_t before = 0;
    for (park(gate);; park(gate))
        for (int i = 0; i < rounds; i++) {
            while (look(&word) == before) wait_while(&word, before, 0);
            before = look(&word);
            change(&answer);
        }
}
static void *time_out(void *gate) {
    static uint32_t never;
    struct timespec soon = {0, 1000};
    for (park(gate);; park(gate))
        for (int i = 0; i < rounds / 10; i++) wait_while(&never, 0, &soon);
}
static void *miss(void *gate) {
    static uint32_t never;
    for (park(gate);; park(gate))
        for (int i = 0; i < rounds; i++) wait_while(&never, 1, 0);
}
static void *serve(void *gate) {
    for (park(gate);; park(gate))
        for (int i = 0; i < rounds; i++) { let(there); await(back); }
}
static void *served(void *gate) {
    for (park(gate);; park(gate))
        for (int i = 0; i < rounds; i++) { await(there); let(back); }
}
static void *nap(void *gate) {
    struct timespec soon = {0, 1000};
    for (park(gate);; park(gate))
        for (int i = 0; i < rounds / 10; i++) nanosleep(&soon, 0);
}
static void *be_woken(void *nothing) {
    take_turns(2);
    for (;;) syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
}
static void *wake(void *gate) {
    take_turns(1);
    for (park(gate);; park(gate))
        for (int i = 0; i < rounds; i++) counted[0] += syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}
static void *want(void *nothing) {
    take_turns(2);
    for (;;) {
        await(asked);
        if (pthread_mutex_trylock(&mutex) == EBUSY) { count(0); pthread_mutex_lock(&mutex); }
        pthread_mutex_unlock(&mutex);
    }
}
static void *have(void *gate) {
    take_turns(1);
    for (park(gate);; park(gate))
        for (int i = 0; i < rounds; i++) {
            pthread_mutex_lock(&mutex);
            let(asked);
            pthread_mutex_unlock(&mutex);
        }
}
static void *hold_file(void *nothing) {
    take_turns(3);
    for (;;) { await(held); if (pwrite(file, page, 1, 0) != 1) exit(2); }
}
static void *want_file(void *nothing) {
    take_turns(2);
    for (;;) { await(asked); if (pwrite(file, "x", 1, 0) != 1) exit(2); count(0); }
}
static void *give_page(void *gate) {
    take_turns(1);
    struct uffd_msg message;
    struct uffdio_zeropage given = {.range = {(unsigned long)page, 4096}};
    for (park(gate);; park(gate))
        for (int i = 0; i < rounds; i++) {
            madvise(page, 4096, MADV_DONTNEED);
            let(held);
            if (read(faults, &message, sizeof message) != sizeof message) exit(2);
            let(asked);
            if (ioctl(faults, UFFDIO_ZEROPAGE, &given)) exit(2);
        }
}
static void open_page(void) {
    file = open("/tmp", O_TMPFILE | O_RDWR, 0600);
    faults = syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API};
    page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register over = {.range = {(unsigned long)page, 4096}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (file < 0 || faults < 0 || ioctl(faults, UFFDIO_API, &api) || ioctl(faults, UFFDIO_REGISTER, &over)) exit(3);
}
static int begin(void *(*run)(void *), int parks) {
    static int begun;
    pthread_t thread;
    if (parks && pipe(gates[begun])) exit(2);
    if (pthread_create(&thread, 0, run, gates[begun])) exit(2);
    begun += parks;
    return parks;
}
int main(int count, char **arguments) {
    char byte;
    int threads = 0;
    rounds = atoi(arguments[2]);
    if (pipe(parked) || pipe(there) || pipe(back) || pipe(asked) || pipe(held)) return 2;
    if (!strcmp(arguments[1], "futexes"))
        threads = begin(ask, 1) + begin(reply, 1) + begin(time_out, 1) + begin(miss, 1);
    if (!strcmp(arguments[1], "switches"))
        threads = begin(serve, 1) + begin(served, 1) + begin(nap, 1) + begin(nap, 1);
    if (!strcmp(arguments[1], "wakeups")) threads = begin(be_woken, 0) + begin(wake, 1);
    if (!strcmp(arguments[1], "mutexes")) threads = begin(want, 0) + begin(have, 1);
    if (!strcmp(arguments[1], "files")) {
        open_page();
        threads = begin(hold_file, 0) + begin(want_file, 0) + begin(give_page, 1);
    }
    for (;;) {
        for (int i = 0; i < threads; i++) await(parked);
        printf("%ld %ld %ld\\n", counted[0], counted[1], counted[2]);
        fflush(stdout);
        memset(counted, 0, sizeof counted);
        if (read(0, &byte, 1) != 1) _exit(0);
        for (int i = 0; i < threads; i++) let(gates[i]);
    }
}
"""
_BUSY = "while True: pass"
_READING_S = 0.05


@attrs.define
class CountedWaits:
    """The program while it runs: its threads, and what they counted and the kernel did while it was let go on."""

    program: subprocess.Popen[bytes]
    threads: list[int]
    counted: Counter[int] = attrs.Factory(Counter)
    switched: int = 0

    def go_on(self, driver: Driver) -> None:
        """Let the threads wait, the driver reading meanwhile, and add up what there was of it."""
        assert self.program.stdin is not None
        assert self.program.stdout is not None
        before = self._count_switches()
        self.program.stdin.write(b"x")
        while not select.select([self.program.stdout], [], [], _READING_S)[0]:
            driver.sample()
        self.counted.update(dict(enumerate(map(int, self.program.stdout.readline().split()))))
        self.switched += self._count_switches() - before
        driver.sample()

    def _count_switches(self) -> int:
        """Return how often the threads have left their cpus, once all have and none goes on."""
        while True:
            told = [self._read_thread(thread) for thread in self.threads]
            is_still = all(state == "S" and is_off for _, state, is_off in told)
            if is_still and told == [self._read_thread(thread) for thread in self.threads]:
                return sum(switches for switches, _, _ in told)
            os.sched_yield()

    def _read_thread(self, thread: int) -> tuple[int, str, bool]:
        folder = f"/proc/{self.program.pid}/task/{thread}"
        status = read_file("/", f"{folder}/status")
        names = ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")
        switches = sum(int(find_status_field(status, name) or -1) for name in names)
        is_off = not read_file("/", f"{folder}/syscall").startswith(b"running")
        return switches, read_stat("/", self.program.pid, thread).state, is_off


def compile_waits(folder: Path) -> Path:
    """Compile the program. Skips where there is no compiler."""
    return compile_c(folder, "waits", _SOURCE, "-O1", "-pthread")


@contextmanager
def counting_waits(path: Path, kind: str, rounds: int, *, busy: int) -> Iterator[CountedWaits]:
    """Run the program beside so many busy loops, its threads standing still. Skips where it may not have turns."""
    with ExitStack() as stack:
        for _ in range(busy):
            loop = stack.enter_context(subprocess.Popen([sys.executable, "-S", "-c", _BUSY]))
            stack.callback(loop.kill)
        pipe = subprocess.PIPE
        program = stack.enter_context(subprocess.Popen([path, kind, str(rounds)], stdin=pipe, stdout=pipe, bufsize=0))
        stack.callback(program.kill)
        assert program.stdout is not None
        if not program.stdout.readline():
            assert program.wait() == 3
            pytest.skip("this user may have no realtime threads, or no userfaultfd")
        yield CountedWaits(program, list_threads("/", program.pid))


@attrs.frozen
class Held:
    """How much of what the program made was seen, and what the collector says that it lost."""

    made: int
    seen: int
    losses: Losses

    @property
    def is_whole(self) -> bool:
        """Whether what was seen and what is said to be lost is all of it; what was passed over may be anybody's."""
        return 0 <= self.made - self.seen - self.losses.dropped <= self.losses.skipped


def _count_waits(waits: CountedWaits, rows: Rows) -> tuple[int, int]:
    by_result = Counter(row["result"] for row in rows if "waits" in row)
    return waits.counted.total(), sum(by_result[result] for result in ("woken", "changed", "timed-out"))


def _count_lock_waits(waits: CountedWaits, rows: Rows) -> tuple[int, int]:
    by_address = Counter(row["addr"] for row in rows if row["lock"] == "rwsem:W")
    return waits.counted[0], max(by_address.values(), default=0)


def _count_contended(waits: CountedWaits, rows: Rows) -> tuple[int, int]:
    return waits.counted[0], sum(row["contended"] for row in rows)


def _count_wakeups(waits: CountedWaits, rows: Rows) -> tuple[int, int]:
    # The first thread lets the one that wakes go on, and is told by it: neither is counted.
    others = {*waits.threads} - {waits.program.pid}
    return waits.counted[0], sum({row["waker"], row["wakee"]} <= others for row in rows)


def _count_turns(waits: CountedWaits, rows: Rows) -> tuple[int, int]:
    return waits.switched, len(rows)


def _count_blocks(waits: CountedWaits, rows: Rows) -> tuple[int, int]:
    # Each thread is off its cpu when the window begins, and again when it closes.
    return waits.switched + len(waits.threads), len(rows)


_ACCOUNTS: Mapping[str, tuple[str, tuple[str, ...], Callable[[CountedWaits, Rows], tuple[int, int]]]] = {
    "sched.futex": ("futexes", ("task",), _count_waits),
    "sched.lock": ("files", ("task",), _count_lock_waits),
    "sched.mutex": ("mutexes", ("task",), _count_contended),
    "sched.wakeup": ("wakeups", ("waker", "wakee"), _count_wakeups),
    "sched.slices": ("switches", ("task",), _count_turns),
    "sched.offcpu": ("switches", ("task",), _count_blocks),
}
"""By source, which waits the program makes for it, under which keys they are looked at, and what was made and seen."""
COUNTED = [
    *(
        pytest.param(source, backend, marks=needs_records if backend == RECORDED else ())
        for source in ("sched.futex", "sched.lock", "sched.wakeup", "sched.slices", "sched.offcpu")
        for backend in (TYPED, RECORDED)
    ),
    ("sched.mutex", "bpf:uprobe"),
    ("sched.mutex", "bpf:uprobe_multi"),
]
"""Each source with each backend that is held to the program's account."""


def hold_to_account(
    registry: Registry,
    catalog: Catalog,
    path: Path,
    source: str,
    backend: str,
    rounds: int,
    *,
    parts: int = 1,
    busy: int = 0,
) -> Held:
    """Let the program at a path wait so often, so many times, while a source is measured, and say what of it was seen.

    As many as 10,000 find room in the memory of records, however long nobody reads it.
    """
    kind, keys, count = _ACCOUNTS[source]
    collector = registry.load(registry.collectors[source, backend].factory)()
    with counting_waits(path, kind, rounds, busy=busy) as waits:
        target = bind_processes(waits.program.pid)
        resolved = resolve_onto(catalog.entries[source], backend, target.target, mode="trace", keys=keys)
        try:
            with Driver(collector, attrs.evolve(resolved, emits=(EmitSpec("raw"),)), target) as driver:
                for _ in range(parts):
                    waits.go_on(driver)
        except MachineRefused as refused:
            pytest.skip(f"this kernel has no {backend}: {refused}")
    return Held(*count(waits, driver.rows), collector.losses())

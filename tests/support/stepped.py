"""A program that traces itself an instruction at a time, and the calls that its steps show: a truth for unwinders."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import attrs

REGISTERS = 17
SYSCALL_BYTES = 2
STACK_POINTER, RETURN_ADDRESS = 7, 16
SIGNAL_FRAME = 512
"""Less than what the kernel puts on a stack for a signal; a function that makes as much stays where it is."""

PROGRAM = r"""
#define _GNU_SOURCE
#include <alloca.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

extern void *__libc_stack_end;
int called_back(int (*callback)(int), int x);
void step_on(void);
void step_off(void);
__asm__(".text\n"
        ".globl step_on\nstep_on:\n.cfi_startproc\npushfq\n.cfi_adjust_cfa_offset 8\norl $0x100, (%rsp)\n"
        "popfq\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n"
        ".globl step_off\nstep_off:\n.cfi_startproc\npushfq\n.cfi_adjust_cfa_offset 8\nandl $~0x100, (%rsp)\n"
        "popfq\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n");

static void on_step(int number, siginfo_t *information, void *context)
{
    static const int order[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
                                REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    uint64_t record[18];
    uint64_t size = (uint64_t)__libc_stack_end + 64 - (uint64_t)registers[REG_RSP];
    int at;

    for (at = 0; at < 17; at++)
        record[at] = (uint64_t)registers[order[at]];
    record[17] = size;
    if (write(3, record, sizeof record) < 0 || write(3, (void *)registers[REG_RSP], size) < 0)
        _exit(9);
    (void)number;
    (void)information;
}

static __attribute__((noinline)) int twice(int x) { return x * 2 + getpid() % 1; }
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static __attribute__((noinline)) int deep(int n) { return n ? deep(n - 1) * 3 + twice(n) : 1; }
static __attribute__((noinline)) int grown(int n)
{
    char *space = alloca(n * 16);
    memset(space, n, n * 16);
    return twice(space[n]);
}

static void on_signal(int number)
{
    step_on();
    twice(number);
    step_off();
}

__attribute__((noinline)) int work(int n)
{
    int numbers[] = {5, 3, 9, 1, 7};
    char text[64];
    struct timespec now;
    int sum;

    step_on();
    sum = deep(n) + grown(n);
    qsort(numbers, 5, sizeof *numbers, compare);
    clock_gettime(CLOCK_MONOTONIC, &now);
    sum += called_back(twice, n) + numbers[0];
    raise(SIGUSR1);
    snprintf(text, sizeof text, "%d %s", sum, "text");
    step_off();
    return sum + text[0];
}

int main(void)
{
    struct sigaction step = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO}, other = {.sa_handler = on_signal};
    char line[64];
    unsigned long kernels[4];

    sigfillset(&step.sa_mask);
    sigaction(SIGTRAP, &step, 0);
    sigaction(SIGUSR1, &other, 0);
    syscall(SYS_rt_sigaction, SIGUSR1, 0, kernels, 8);
    work(6);
    printf("restorer %lx\nready 0\n", kernels[2]);
    fflush(stdout);
    return fgets(line, sizeof line, stdin) != 0;
}
"""
LIBRARY = """
__attribute__((noinline)) static int through(int (*callback)(int), int x) { return callback(x + 1) + 1; }
int called_back(int (*callback)(int), int x) { return through(callback, x) + through(callback, x + 2); }
"""


@attrs.frozen
class Step:
    """The registers before an instruction, and the stack from rsp on."""

    registers: tuple[int, ...]
    stack: bytes

    @property
    def address(self) -> int:
        """The instruction."""
        return self.registers[RETURN_ADDRESS]

    @property
    def top(self) -> int:
        """The stack pointer."""
        return self.registers[STACK_POINTER]

    @property
    def topmost(self) -> int:
        """What stands at the stack pointer."""
        return int.from_bytes(self.stack[:8], "little")


def read_steps(path: Path) -> list[Step]:
    """Read what the program wrote of its steps."""
    content, at, steps = path.read_bytes(), 0, []
    while at < len(content):
        *registers, size = struct.unpack_from("<18Q", content, at)
        at += 18 * 8
        steps.append(Step(tuple(registers), content[at : at + size]))
        at += size
    return steps


def iter_callers(steps: list[Step], base: list[int], restorer: int) -> Iterator[list[int]]:
    """Yield each step's callers, innermost first, as its calls and returns make them: return addresses.

    `base` are those of the first step. A signal's handler is seen from the return of its own step_on on. The kernel
    has it return to `restorer`, and it interrupted the program after the system call that raised the signal.
    """
    callers = list(base)
    interrupted: list[list[int]] = []
    for number, step in enumerate(steps):
        if number:
            before = steps[number - 1]
            if step.top == before.top - 8 and 0 < step.topmost - before.address <= 8 and step.address != step.topmost:
                callers.insert(0, step.topmost)
            elif step.top == before.top + 8 and step.address == before.topmost and callers[:1] == [step.address]:
                callers.pop(0)
            elif before.top - step.top > SIGNAL_FRAME and not 0 < step.address - before.address < 16:
                interrupted.append(list(callers))
                callers = [restorer, before.address + SYSCALL_BYTES, *callers]
            elif interrupted and step.top - before.top > SIGNAL_FRAME:
                callers = interrupted.pop()
        yield list(callers)

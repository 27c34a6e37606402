"""Stacks made of what samples brought: the kernel's chains, and what was copied of the program walked by its code."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from omn_kernel.distinct import list_distinct
from omn_kernel.perf.call_stacks import CallStacks, Ending, Half, join_halves, split_chains, take_chains
from omn_kernel.perf.samples import Samples
from omn_kernel.polled import read_file
from omn_kernel.symbols.symboliser import Symboliser
from omn_kernel.unwind.choosing import StackWalk
from omn_kernel.unwind.copied import INSTRUCTION, CopiedStacks
from omn_kernel.unwind.ranges import FrameTables
from omn_kernel.unwind.walking import Ended, Found, Walker

_KERNEL_FROM = np.uint64(1 << 63)
_ENDINGS = np.zeros(max(Ended) + 1, np.uint8)
_ENDINGS[[Ended.STACK_END, Ended.TOO_DEEP]] = Ending.CUT
_ENDINGS[[Ended.NO_TABLE, Ended.BAD_TABLE]] = Ending.BLIND


class Unwinder:
    """Walks samples one way. `notes` says in a sentence each what code has no unwind information that can be read."""

    def __init__(self, walk: StackWalk, symboliser: Symboliser, sysroot: str) -> None:
        self._walk = walk
        self._symboliser = symboliser
        self._tables = FrameTables(sysroot, symboliser.files)
        self.most_frames = _read_most_frames(sysroot)

    @property
    def notes(self) -> tuple[str, ...]:
        """What code a walk ended in for want of readable information."""
        return tuple(self._tables.notes)

    def make(self, samples: Samples) -> CallStacks:
        """Make the stacks of samples."""
        if samples.copied is None:
            return take_chains(samples, self.most_frames)
        if self._walk.has_user_chains:
            return self._recover(samples, samples.copied)
        return self._unwind(samples, samples.copied)

    def _unwind(self, samples: Samples, copied: CopiedStacks) -> CallStacks:
        """Put the program's frames, walked over its copied stack, after the kernel's own."""
        count = len(samples)
        starts, lengths = np.zeros(count, np.int64), np.zeros(count, np.int64)
        endings = np.full(count, Ending.BLIND, np.uint8)
        # A program that is not walked, of 32 bits, has the one frame that it was sampled in.
        has_copies = copied.registers[:, INSTRUCTION] != 0
        is_alone = ~has_copies & (samples.ip < _KERNEL_FROM)
        sites = [samples.ip]
        starts[is_alone], lengths[is_alone] = np.flatnonzero(is_alone), 1
        endings[~has_copies & ~is_alone] = Ending.WHOLE
        begin = count
        for walker, chosen in self._iter_walkers(samples, copied, has_copies):
            chains = walker.walk(copied.take(chosen))
            sites.append(chains.compute_call_sites())
            lengths[chosen] = np.diff(chains.ends, prepend=0)
            starts[chosen] = begin + chains.ends - lengths[chosen]
            endings[chosen] = _ENDINGS[chains.reasons]
            begin += len(sites[-1])
        found = np.concatenate(sites)
        return join_halves(
            (split_chains(samples)[0], Half(found, np.zeros(len(found), bool), starts, lengths)), endings
        )

    def _recover(self, samples: Samples, copied: CopiedStacks) -> CallStacks:
        """Put the caller into chains of frame pointers that passed it over, behind the frame that has set none up.

        Where that frame holds something else in the register, the callers that were found by it are none.
        """
        kernel, program = split_chains(samples)
        callers, found = np.zeros(len(samples), np.uint64), np.full(len(samples), Found.UNKNOWN, np.uint8)
        has_copies = (copied.registers[:, INSTRUCTION] != 0) & (program.lengths > 0)
        for walker, chosen in self._iter_walkers(samples, copied, has_copies):
            answer = walker.find_callers(copied.take(chosen))
            callers[chosen], found[chosen] = answer.addresses, answer.found
        is_passed = (found == Found.FRAMELESS) | (found == Found.CLOBBERED)
        is_ended = found == Found.CLOBBERED
        leaf = np.where(is_passed, 1, program.lengths)
        rest = np.where(is_passed & ~is_ended, program.lengths - 1, 0)
        count = np.arange(len(samples))
        parts = (
            kernel,
            Half(program.sites, program.is_recovered, program.starts, leaf),
            Half(callers - np.uint64(1), np.ones(len(samples), bool), count, is_passed.astype(np.int64)),
            Half(program.sites, program.is_recovered, program.starts + 1, rest),
        )
        is_cut = (samples.chain_lengths >= self.most_frames) & ~is_ended
        return join_halves(
            parts, np.where(is_ended, Ending.BLIND, np.where(is_cut, Ending.CUT, Ending.WHOLE)).astype(np.uint8)
        )

    def _iter_walkers(
        self, samples: Samples, copied: CopiedStacks, is_asked: npt.NDArray[np.bool_]
    ) -> Iterator[tuple[Walker, npt.NDArray[np.int64]]]:
        """Yield a walker of each memory that samples were in, and which they are."""
        instructions, times = copied.registers[:, INSTRUCTION], samples.time.astype(np.int64)
        for pid in list_distinct(samples.pid[is_asked]):
            chosen = np.flatnonzero(is_asked & (samples.pid == pid))
            for memory in self._symboliser.iter_memories(pid, instructions[chosen], times[chosen]):
                ranges = self._tables.make_ranges(memory.mappings, pid, memory.is_living)
                yield Walker(ranges), chosen[memory.samples]


def _read_most_frames(sysroot: str) -> int:
    """Read how many frames the kernel walks at most, see kernel.perf_event_max_stack in proc_sys_kernel(5)."""
    try:
        return int(read_file(sysroot, "/proc/sys/kernel/perf_event_max_stack"))
    except (OSError, ValueError):
        return 127

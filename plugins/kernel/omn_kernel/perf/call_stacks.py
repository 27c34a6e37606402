"""The calls that each sample was in: addresses to be named, leaf first, whichever way they were walked."""

from __future__ import annotations

import enum
from collections.abc import Sequence

import attrs
import numpy as np
import numpy.typing as npt

from omn_kernel.perf.samples import Samples

Counts = npt.NDArray[np.int64]
Addresses = npt.NDArray[np.uint64]


class Ending(enum.IntEnum):
    """Why a stack has no more frames: its outermost is there, it is deeper than what was kept, or nobody can tell."""

    WHOLE = 0
    CUT = 1
    BLIND = 2


@attrs.frozen(eq=False, repr=False)
class CallStacks:
    """Stacks end to end: sample n's are the next `lengths[n]` of `sites`.

    A site is an address inside the call or, of an innermost frame, of the instruction itself. `is_recovered` marks
    frames that were inferred and not walked. `endings` holds an `Ending` for each sample.
    """

    sites: Addresses
    is_recovered: npt.NDArray[np.bool_]
    lengths: Counts
    endings: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def nbytes(self) -> int:
        """Bytes held by the columns."""
        return self.sites.nbytes + self.is_recovered.nbytes + self.lengths.nbytes + self.endings.nbytes

    @property
    def starts(self) -> Counts:
        """Where each sample's stack begins."""
        return np.cumsum(self.lengths) - self.lengths

    def list_frames(self, chosen: Counts) -> Counts:
        """List where the frames of some samples' stacks stand, end to end."""
        lengths = self.lengths[chosen]
        within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return np.repeat(self.starts[chosen], lengths) + within

    def take(self, chosen: Counts) -> CallStacks:
        """Return the stacks of some samples."""
        frames = self.list_frames(chosen)
        return CallStacks(self.sites[frames], self.is_recovered[frames], self.lengths[chosen], self.endings[chosen])

    @classmethod
    def concatenate(cls, parts: Sequence[CallStacks]) -> CallStacks:
        """Lay the stacks of several batches of samples end to end. There is at least one."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in attrs.fields(cls)))


@attrs.frozen(eq=False, repr=False)
class Half:
    """The frames of one half of many stacks, the kernel's or the program's: end to end in any order of the samples.

    Sample n's are `sites[starts[n]:starts[n] + lengths[n]]`.
    """

    sites: Addresses
    is_recovered: npt.NDArray[np.bool_]
    starts: Counts
    lengths: Counts


def compute_chain_sites(samples: Samples) -> Addresses:
    """Compute the address to name for each frame of chains: of a caller the one before it returns to, inside its call.

    The first frame of each half, the kernel's and the program's, is where it was, and stays.
    """
    is_exact = np.zeros(len(samples.addresses), bool)
    begins = samples.chain_starts.astype(np.int64)
    lengths = samples.chain_lengths.astype(np.int64)
    in_kernel = samples.kernel_frames.astype(np.int64)
    is_exact[begins[lengths > 0]] = True
    is_exact[(begins + in_kernel)[in_kernel < lengths]] = True
    return samples.addresses - (~is_exact & (samples.addresses > 0)).astype(np.uint64)


def take_chains(samples: Samples, most_frames: int) -> CallStacks:
    """Take the kernel's own chains for the stacks: they stand end to end already. As deep as it walks is cut."""
    is_cut = samples.chain_lengths >= most_frames
    return CallStacks(
        compute_chain_sites(samples),
        np.zeros(len(samples.addresses), bool),
        samples.chain_lengths.astype(np.int64),
        is_cut.astype(np.uint8) * np.uint8(Ending.CUT),
    )


def split_chains(samples: Samples) -> tuple[Half, Half]:
    """Split the kernel's own chains into its half and the program's."""
    sites = compute_chain_sites(samples)
    is_recovered = np.zeros(len(sites), bool)
    starts = samples.chain_starts.astype(np.int64)
    in_kernel = samples.kernel_frames.astype(np.int64)
    rest = samples.chain_lengths.astype(np.int64) - in_kernel
    return Half(sites, is_recovered, starts, in_kernel), Half(sites, is_recovered, starts + in_kernel, rest)


def join_halves(halves: Sequence[Half], endings: npt.NDArray[np.uint8]) -> CallStacks:
    """Join the parts of each sample's stack, the innermost first."""
    lengths = np.sum([half.lengths for half in halves], axis=0)
    total = int(lengths.sum())
    sites, is_recovered = np.empty(total, np.uint64), np.empty(total, bool)
    places = np.cumsum(lengths) - lengths
    for half in halves:
        within = np.arange(int(half.lengths.sum())) - np.repeat(np.cumsum(half.lengths) - half.lengths, half.lengths)
        source, target = np.repeat(half.starts, half.lengths) + within, np.repeat(places, half.lengths) + within
        sites[target], is_recovered[target] = half.sites[source], half.is_recovered[source]
        places = places + half.lengths
    return CallStacks(sites, is_recovered, lengths, endings)

"""Names that a runtime writes for the code it generates: /tmp/perf-<pid>.map, lines of `START SIZE name`.

The file is read as it grows. It is believed where it is the process's own: a regular file of the user the process runs
as, or of root, last written since the process began. Any user can plant one for a pid to come.
"""

from __future__ import annotations

import os
import stat
import time
from array import array

import numpy as np

from omn_kernel.symbols.identity import Identity
from omn_kernel.symbols.index import Addresses, Numbers

_MOST_BYTES = 256 << 20
_MOST_LINES = 1 << 20
_MOST_NAME = 1 << 16
_CHUNK = 4 << 20


def find_map(pid: int) -> str:
    """Return where a runtime writes the map of a process, by the pid it knows itself under."""
    # The path is perf's convention; what stands there is believed only as the process's own.
    return f"/tmp/perf-{pid}.map"  # noqa: S108


class PerfMap:
    """The map of one process, held by its descriptor from when it is first seen: the process may end and delete it.

    `refusal` says in a clause why a file that is there is not believed.
    """

    def __init__(self, paths: tuple[str, ...], identity: Identity) -> None:
        self._paths = paths
        self._identity = identity
        self._descriptor = -1
        self._read_bytes = 0
        self._rest = b""
        self._starts, self._ends = array("Q"), array("Q")
        self._names: list[bytes] = []
        self._sorted: tuple[Addresses, Addresses, Numbers] | None = None
        self.refusal: str | None = None

    def read_growth(self) -> None:
        """Read what was written since. A file that is not there yet is looked for again at the next call."""
        if self._descriptor < 0 and not self._open():
            return
        if os.fstat(self._descriptor).st_size < self._read_bytes:  # written anew: what comes is later than what was
            self._read_bytes, self._rest = 0, b""
        while self._read_bytes < _MOST_BYTES and len(self._names) < _MOST_LINES:
            content = os.pread(self._descriptor, _CHUNK, self._read_bytes)
            if not content:
                return
            self._read_bytes += len(content)
            self._take(content)
        self.refusal = f"it is past {_MOST_BYTES >> 20} MiB or {_MOST_LINES} lines, and what follows is not read"

    @property
    def is_open(self) -> bool:
        """Whether the file was found, and is believed."""
        return self._descriptor >= 0

    def _open(self) -> bool:
        """Open the first of the places where a file stands, if it is to be believed."""
        for path in self._paths:
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
            except (FileNotFoundError, NotADirectoryError, ProcessLookupError):
                continue
            except OSError as error:
                self.refusal = f"it cannot be opened ({error.strerror})"
                return False
            self.refusal = _find_fault(os.fstat(descriptor), self._identity)
            if self.refusal is not None:
                os.close(descriptor)
                return False
            self._descriptor = descriptor
            return True
        return False

    def _take(self, content: bytes) -> None:
        lines = (self._rest + content).split(b"\n")
        # A line that never ends is no line.
        self._rest = lines.pop()[: _MOST_NAME + 64]
        for line in lines:
            start, _, rest = line.partition(b" ")
            size, _, name = rest.partition(b" ")
            try:
                low, length = int(start, 16), int(size, 16)
            except ValueError:
                continue
            if name and length > 0 and 0 <= low < low + length < 1 << 64 and len(self._names) < _MOST_LINES:
                self._starts.append(low)
                self._ends.append(low + length)
                self._names.append(name[:_MOST_NAME])
                self._sorted = None

    def find(self, addresses: Addresses) -> Numbers:
        """Find the line that each address is in, -1 for one that is in none. A later line drops those it overlaps."""
        if not self._names:
            return np.full(len(addresses), -1, np.int64)
        if self._sorted is None:
            self._sorted = keep_latest(np.array(self._starts), np.array(self._ends))
        starts, ends, lines = self._sorted
        at = np.searchsorted(starts, addresses, side="right").astype(np.int64) - 1
        return np.where((at >= 0) & (addresses < ends[at]), lines[at], -1)

    def list_starts(self, lines: Numbers) -> list[int]:
        """List where the code of lines starts."""
        return [self._starts[line] for line in lines.tolist()]

    def list_sources(self, lines: Numbers) -> list[str]:
        """List who named each."""
        return ["perf-map"] * len(lines)

    def list_names(self, lines: Numbers) -> list[bytes | None]:
        """List the names on lines: any bytes."""
        return [self._names[line] for line in lines.tolist()]

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        # A run that fails half-way closes nothing, and its descriptors are not Python's to close.
        self.close()


def _find_fault(status: os.stat_result, identity: Identity) -> str | None:
    """Find why a map is not the process's own, None where it is."""
    if not stat.S_ISREG(status.st_mode):
        return "it is no regular file"
    if status.st_uid not in (identity.owner, 0):
        return f"user {status.st_uid} owns it, and the process runs as user {identity.owner}"
    # The process's begin is on the monotonic clock; a clock tick is what that is exact to.
    ahead_ns = time.clock_gettime_ns(time.CLOCK_REALTIME) - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    if status.st_mtime_ns + tick_ns < identity.begun_ns + ahead_ns:
        return "it was last written before the process began"
    return None


def keep_latest(starts: Addresses, ends: Addresses) -> tuple[Addresses, Addresses, Numbers]:
    """Keep, of ranges in the order they were written, those that no later one overlaps: sorted, with their numbers.

    Code that is generated over other code replaces all of it, also where it is shorter.
    """
    order = np.argsort(starts, kind="stable").astype(np.int64)
    low, high = starts[order], ends[order]
    joins = np.zeros(len(low), bool)
    joins[1:] = low[1:] < np.maximum.accumulate(high)[:-1]
    if joins.any():
        tangled = joins.copy()
        tangled[:-1] |= joins[1:]
        chosen = np.flatnonzero(tangled)
        dropped = _find_overlapped(low[chosen], high[chosen], order[chosen])
        kept = np.ones(len(low), bool)
        kept[chosen[dropped]] = False
        order, low, high = order[kept], low[kept], high[kept]
    return low, high, order


def _find_overlapped(low: Addresses, high: Addresses, written: Numbers) -> Numbers:
    """Find which ranges, sorted by their start, a later one overlaps: it starts inside, or holds their start."""
    until = np.searchsorted(low, high, side="left").astype(np.int64)
    latest_inside = _compute_range_maxima(written, np.arange(len(low)), until)
    holds = _paint(low, until, written)
    return np.flatnonzero((latest_inside > written) | (holds > written))


def _compute_range_maxima(values: Numbers, first: Numbers, last: Numbers) -> Numbers:
    """Compute the greatest value of each range first..last-1, none of them empty: doubling windows."""
    width = np.maximum(last - first, 1)
    level = np.frexp(width)[1].astype(np.int64) - 1
    maxima, table = np.empty(len(values), np.int64), values
    for step in range(int(level.max(initial=0)) + 1):
        chosen = np.flatnonzero(level == step)
        back = last[chosen] - (1 << step)
        maxima[chosen] = np.maximum(table[first[chosen]], table[np.maximum(back, first[chosen])])
        if len(table) > 1 << step:
            table = np.maximum(table, np.append(table[1 << step :], np.full(1 << step, -1)))
    return maxima


def _paint(low: Addresses, until: Numbers, written: Numbers) -> Numbers:
    """Return the latest range that holds each one's start: each is painted once, the latest first."""
    latest = np.full(len(low), -1, np.int64)
    following = list(range(len(low) + 1))
    ends = until.tolist()

    def skip(at: int) -> int:
        while following[at] != at:
            following[at] = following[following[at]]
            at = following[at]
        return at

    first = np.searchsorted(low, low, side="left").tolist()
    for number in np.argsort(-written, kind="stable").tolist():
        at = skip(first[number])
        while at < ends[number]:
            latest[at] = written[number]
            following[at] = at + 1
            at = skip(at)
    return latest

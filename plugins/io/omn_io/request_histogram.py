"""How long block requests took, added up in the kernel by the power of two of their time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from omn_kernel.bpf.columns import Columns, make_named_column
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Entries
from omn_kernel.bpf.rows import RowCollector

from omn_core.api import BoundTarget, Column
from omn_io.programs.request_times import DEVICE, DEVICES, PLACE, RequestTimes
from omn_io.programs.requests import MOST_REQUESTS
from omn_io.traced_requests import AccountedRequests


class RequestHistogram(AccountedRequests, RowCollector):
    """A row for each device, of every power of two, which every cpu adds to by itself."""

    key = PLACE
    row = DEVICE
    entries = DEVICES
    kind = MapType.PERCPU_ARRAY
    _unknown = 0

    def write_programs(self, target: BoundTarget) -> None:
        """Load the programs on a request's completion and on its issue."""
        self.open_counts(target)
        self._times = self.hold(RequestTimes(self.device, self.completions))
        reason = f"requests began while {MOST_REQUESTS} others, as many as are remembered, were under way"
        self.count_lost(self._times.lost, reason)
        self.count_lost(self._times.crowded, f"requests were of devices that found no room among {DEVICES} in a drain")
        self.load_tracepoint("block_rq_complete", lambda program: self._times.write_complete(program, self.rows))
        self.load_tracepoint("block_rq_issue", self._times.write_issue)

    def find_lost(self) -> int:
        """Find how many requests found no room when they began."""
        return self._times.lost.read_count()

    def detach(self) -> None:
        """Keep how many requests were not seen to begin."""
        super().detach()
        self._unknown = self._times.unknown.read_count()

    def fields(self) -> Mapping[str, int]:
        """Return how many requests had begun before."""
        return {"begun_before": self._unknown}

    def facts(self) -> tuple[str, ...]:
        """Say where the histogram was made."""
        return ("the histogram was built in the kernel, and no request was handed over by itself",)

    def make_columns(self, entries: Entries) -> Columns:
        """Make columns of rows: the mean of what each added up, which lies in its bucket, beside the exact total."""
        place, cpu, bucket = np.nonzero(entries.values["buckets"]["requests"])
        times = entries.values["buckets"][place, cpu, bucket]
        requests, total_ns = (times[name].astype(np.int64) for name in ("requests", "total_ns"))
        self.devices.look()
        device = make_named_column(entries.values["device"][place, cpu] - 1, self.devices.find, self.context.names)
        attributes = {
            "latency_ns": Column(total_ns // requests),
            "total_ns": Column(total_ns),
            "requests": Column(np.ones(len(requests), np.int64)),
        }
        return Columns({"dev": device}, attributes, requests)

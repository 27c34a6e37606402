"""io.latency: how long block requests took, from their issue to the device to their completion."""

from __future__ import annotations

from omn_kernel.bpf.choosing import ChosenCollector
from omn_kernel.bpf.record_arguments import reads_records

from omn_core.api import ResolvedRequest
from omn_io.request_histogram import RequestHistogram
from omn_io.requests import Requests

_ROW_KEYS = frozenset({"dev"})
_WHOLE = frozenset({"system", "dev"})


class RequestLatency(ChosenCollector):
    """A histogram of the machine's or a device's requests is built in the kernel; anything else takes each of them."""

    def choose(self, resolved: ResolvedRequest) -> Requests | RequestHistogram:
        """Choose the histogram where it is all that is asked: any other figure would become one of buckets.

        Its programs find what they remember by the request itself, which no record names.
        """
        is_histogram = all(emit.name == "hist" and emit.attribute is None for emit in resolved.emits)
        target = resolved.request.target
        is_whole = target is not None and target.kind in _WHOLE and not resolved.filter_fields
        has_requests = not reads_records(resolved)
        divides = _ROW_KEYS.issuperset(resolved.keys) and resolved.value in (None, "latency_ns")
        return RequestHistogram() if is_histogram and is_whole and divides and has_requests else Requests()

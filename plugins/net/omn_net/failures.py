"""net.iface: what each interface could not receive or send, a row for each kind of failure."""

from __future__ import annotations

from omn_kernel.links import COUNTERS
from omn_kernel.polling import Rows

from omn_core.api import BoundTarget, ResolvedRequest, RunContext
from omn_net.counter_rows import check_divided
from omn_net.interfaces import InterfaceCollector, Moved

_TRAFFIC = ("packets", "bytes", "multicast", "compressed")
KINDS = tuple(name for name in COUNTERS if not name.endswith(_TRAFFIC))
"""The kernel's counters of failures; some hold others (rx_errors holds rx_crc_errors), and none is another's rest."""


class Failures(InterfaceCollector):
    """A row for each interface and kind in each interval.

    A kind that never happened since the kernel made the interface has no row, but where the target names the interface.
    """

    counters = KINDS

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Refuse a figure that adds kinds up."""
        check_divided(resolved)
        super().prepare(resolved, context)

    def open_files(self, target: BoundTarget) -> None:
        """Open the reader."""
        super().open_files(target)
        self._lists_all = target.target.kind == "iface"

    def make_moved_rows(self, moved: list[Moved]) -> Rows:
        """Return the rows."""
        rows = [
            (self.interfaces.key_of(one.link.index), kind, grown, one.link.name)
            for one in moved
            for kind, grown in one.growth.by.items()
            if self._lists_all or one.link.counters[kind]
        ]
        if not rows:
            return Rows()
        keys, kinds, grown, names = zip(*rows, strict=True)
        return Rows({"iface": keys, "counter": kinds}, {"failures": grown, "name": names})

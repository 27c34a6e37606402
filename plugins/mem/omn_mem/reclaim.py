"""mem.reclaim: tasks that reclaim memory before they get any, each time with what it came to."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.columns import make_named_column
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R1, R6
from omn_kernel.procfs.task import PAGE_BYTES

from omn_core.api import Column
from omn_mem.episodes import UNTOLD, Episodes, Records, make_told
from omn_mem.programs.episodes import EpisodePrograms

_KINDS = ("direct", "memcg")
"""For want of memory in the machine, and in a cgroup at its limit; mm_vmscan_<kind>_reclaim_begin and _end."""


class Reclaims(Episodes):
    """An event for each time that a task of the target reclaimed for itself; kswapd does it for nobody by name."""

    name = "reclaims"
    own = (("kind", "u4"), ("order", "i4"), ("reclaimed", "i8"))

    def load_episodes(self, written: EpisodePrograms) -> None:
        """Load programs for either kind."""
        for kind, name in enumerate(_KINDS):
            set_begun = partial(_set_begun, kind)
            self.load_tracepoint(f"mm_vmscan_{name}_reclaim_end", partial(written.write_end, set_fields=_set_reclaimed))
            self.load_tracepoint(f"mm_vmscan_{name}_reclaim_begin", partial(written.write_begin, set_fields=set_begun))

    def make_own_columns(self, records: Records) -> Mapping[str, Column]:
        """Make what was reclaimed, for an allocation of which size."""
        pages = make_told(records["reclaimed"])
        return {
            "op": make_named_column(records["kind"], _KINDS.__getitem__, self.context.names),
            "order": Column(records["order"].astype(np.int64)),
            "reclaimed_bytes": Column(pages.values * PAGE_BYTES, pages.present),
            "reclaims": Column(np.ones(len(records), np.int64)),
        }


def _set_begun(kind: int, program: KernelAssembly, begun: Record) -> None:
    """Set what mm_vmscan_direct_reclaim_begin(order, flags) tells."""
    program.set(begun, "kind", kind)
    program.read_argument(R1, R6, 0)
    program.set(begun, "order", R1)
    program.set(begun, "reclaimed", UNTOLD)


def _set_reclaimed(program: KernelAssembly, begun: Record) -> None:
    """Set what mm_vmscan_direct_reclaim_end(pages) tells."""
    program.read_argument(R1, R6, 0)
    program.set(begun, "reclaimed", R1)

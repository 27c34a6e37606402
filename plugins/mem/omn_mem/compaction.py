"""mem.compaction: tasks that move pages together so that larger blocks become free, zone by zone."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.columns import make_named_column
from omn_kernel.bpf.hooks import TypedTracepoint
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R1, R6
from omn_kernel.btf.fields import get_enumerator
from omn_kernel.btf.spelling import spell_tracepoint

from omn_core.api import Column
from omn_mem.episodes import UNTOLD, Episodes, Records
from omn_mem.programs.episodes import EpisodePrograms

_RESULTS = (
    "NOT_SUITABLE_ZONE",
    "SKIPPED",
    "DEFERRED",
    "NO_SUITABLE_PAGE",
    "CONTINUE",
    "COMPLETE",
    "PARTIAL_SKIPPED",
    "CONTENDED",
    "SUCCESS",
)
"""What compaction of a zone comes to: enum compact_result of <linux/compaction.h>, without COMPACT_."""
_BOOLEAN = 0xFF
_MODES = ("async", "sync")


class Compactions(Episodes):
    """An event for each zone that a task of the target compacted, for itself or as the kernel's thread for that."""

    name = "compactions"
    own = (("is_sync", "u4"), ("result", "i4"))

    def load_episodes(self, written: EpisodePrograms) -> None:
        """Load the programs; which arguments they read, the tracepoints' shapes tell."""
        self._results = {
            get_enumerator(self.types, "compact_result", f"COMPACT_{name}"): name.lower().replace("_", "-")
            for name in _RESULTS
        }
        begin, end = (self._count_arguments(f"mm_compaction_{which}") for which in ("begin", "end"))

        def set_begun(program: KernelAssembly, begun: Record) -> None:
            """Set what mm_compaction_begin(..., is synchronous) tells."""
            program.read_argument(R1, R6, begin - 1)
            program.compute(R1, "&=", _BOOLEAN)
            program.set(begun, "is_sync", R1)
            program.set(begun, "result", UNTOLD)

        def set_ended(program: KernelAssembly, begun: Record) -> None:
            """Set what mm_compaction_end(..., is synchronous, result) tells."""
            program.read_argument(R1, R6, end - 1)
            program.set(begun, "result", R1)

        self.load_tracepoint("mm_compaction_end", lambda program: written.write_end(program, set_ended))
        self.load_tracepoint("mm_compaction_begin", lambda program: written.write_begin(program, set_begun))

    def _count_arguments(self, name: str) -> int:
        return len(spell_tracepoint(self.types, TypedTracepoint(name, self.types).get_attach_id()))

    def make_own_columns(self, records: Records) -> Mapping[str, Column]:
        """Make how a zone was compacted, and what that came to."""
        names = self.context.names
        return {
            "op": make_named_column(records["is_sync"], _MODES.__getitem__, names),
            "result": make_named_column(records["result"].astype(np.int64), self._results.get, names),
            "compactions": Column(np.ones(len(records), np.int64)),
        }

"""mem.heap.alloc by a library that is loaded into the program: its calls of the allocator, recorded where they are."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from omn_kernel.bpf.columns import Columns, keep_where, make_text_column
from omn_kernel.bpf.identity import PROCESS_FIELDS, make_process_column
from omn_kernel.injected.collecting import Array, InjectedCollector
from omn_kernel.injected.heap_records import FIELDS, HeapRecords
from omn_kernel.injected.memory import Part

from omn_core.api import Column, ResolvedRequest, RunContext
from omn_mem.added_calls import AddedCalls
from omn_mem.heap_events import compute_calls, make_asked_columns

_OF_BLOCKS = ("live_bytes", "lifetime_ns", "addr")
"""What is known of a block alone that a call made, and of no row that calls were added up to."""
_OWNERS = [("process", "u4"), ("thread", "u4"), ("name", "S16")]


class PreloadedAllocations(InjectedCollector):
    """An event for each call that was asked for a block: what it made, and whether that is live at the close."""

    library = "omn_heap"
    variable = b"OMN_HEAP_MEMORY"
    function = "malloc"
    remedy = "--backend force:bpf:uprobe, which needs privileges, or mem.faults, which sees the pages that any takes"
    format = HeapRecords()

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Make the memory that the library is to write to."""
        super().prepare(resolved, context)
        self._counts: Mapping[str, int] = {}
        is_added_up = resolved.mode == "count" and not any(resolved.shows(name) for name in _OF_BLOCKS)
        self._added = AddedCalls(*self.format.read([])) if is_added_up else None

    def keep(self, part: Part) -> None:
        """Keep what came, or add it up where nothing is asked of single blocks: then nothing bounds how many came."""
        if self._added is None:
            super().keep(part)
        elif self.is_ending:
            self._added.keep_apart(*self.format.read([part]))
        else:
            self._added.add(self.format.add_up(part))

    def read_records(self) -> tuple[Array, Array]:
        """Return the calls, or the rows that they were added up to, with how many each stands for as `weight`."""
        if self._added is None:
            return super().read_records()
        records, owners, weights = self._added.read()
        weighed = np.zeros(len(owners), [*_OWNERS, ("weight", "i8")])
        for name, _ in _OWNERS:
            weighed[name] = owners[name]
        weighed["weight"] = weights
        return records, weighed

    def make_columns(self, records: Array, owners: Array, closed_ns: int) -> tuple[Columns, Array]:
        """Make columns of the calls that were to make a block: what each made, or what it was refused."""
        if self._added is not None:
            return self._make_added_columns(records, owners)
        whole = np.empty(len(records), np.dtype([*((name, kind) for name, kind in FIELDS.items()), ("process", "i4")]))
        for name in FIELDS:
            whole[name] = records[name]
        # The number of a process goes on from one program to the next: what this makes is not what that had made.
        whole["process"] = owners["process"]
        made = compute_calls(whole, whole["began_ns"], closed_ns)
        self._counts = made.counts
        chosen = np.flatnonzero(made.is_call)
        keys, attributes = self._make_task_columns(owners[chosen])
        columns = {**made.make_columns(self.context.names), **attributes}
        return Columns(keys, columns, stack=self.number_stacks(records[chosen], owners[chosen])), chosen

    def _make_added_columns(self, records: Array, owners: Array) -> tuple[Columns, Array]:
        """Make columns of rows. How many blocks are live is not known of them."""
        self._counts = {} if self._added is None else {"frees": self._added.frees}
        keys, attributes = self._make_task_columns(owners)
        columns = {**make_asked_columns(records, self.context.names), **attributes}
        stacks = self.number_stacks(records, owners)
        return Columns(keys, columns, owners["weight"].copy(), stacks), np.arange(len(records))

    def _make_task_columns(self, owners: Array) -> tuple[dict[str, Column], dict[str, Column]]:
        """Make the keys and attributes of who called that the answer shows; numbers of another pid namespace are none.

        It is what a thread called itself when it took the memory that it writes to.
        """
        processes, is_own = self.programs.processes[owners["process"]], self.programs.is_own(owners["process"])
        identities = np.zeros(len(owners), np.dtype(PROCESS_FIELDS))
        identities["proc_inode"], identities["proc_number"] = processes["pid_namespace"], processes["pid"]
        names = self.context.names
        keys = {
            "task": keep_where(Column(owners["thread"].astype(np.int64)), is_own),
            "proc": make_process_column(identities, names),
            "comm": make_text_column(owners["name"], names),
        }
        attributes = {
            "pid": keep_where(Column(processes["pid"].astype(np.int64)), is_own),
            "ppid": keep_where(Column(processes["parent"].astype(np.int64)), is_own),
        }
        shows = self.resolved.shows
        return (
            {name: column for name, column in keys.items() if shows(name)},
            {name: column for name, column in attributes.items() if shows(name)},
        )

    def fields(self) -> Mapping[str, int]:
        """Return how many events there are, what was given back, and what is live at the close."""
        return {**super().fields(), **self._counts}

"""sched.mutex: the mutexes of a program's C library, each lock from where it is asked for to where it is let go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from omn_kernel.bpf.columns import Columns, make_address_column, make_text_column
from omn_kernel.bpf.filters import OneProcess
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.probed import ProbedRecords
from omn_kernel.bpf.spans import SpanRecords
from omn_kernel.bpf.task_states import TaskStates
from omn_kernel.bpf.tracing import ABSENT
from omn_kernel.bpf.user_functions import Chooses, SameFunctions
from omn_kernel.procfs.process import has_ended

from omn_core.api import BoundTarget, Column
from omn_sched.programs.mutex import FIELDS, KEY, MOST_HELD, MutexPrograms

Records = npt.NDArray[Any]


class Mutexes(ProbedRecords, SpanRecords):
    """An event for each lock that is let go, and for each that is waited for or held when the window closes.

    A wait that its thread did not outlive, killed or cancelled, is one too, of its time until there.
    """

    sought = "function pthread_mutex_lock by its symbols"
    remedy = "ask sched.futex, which sees what any lock of a program sleeps in"
    layout = FIELDS
    began = "began_ns"
    lasted = "wait_ns"
    _abandoned = 0

    def open_maps(self) -> None:
        """Open the way that records come, who waits for a mutex, and which are held."""
        super().open_maps()
        self._waiting = self.hold(TaskStates("mutex_waits", self.record))
        self._held_mutexes = self.hold(Map(MapType.HASH, "mutexes_held", KEY, self.record, MOST_HELD))
        self._lost, self._ended = self.hold(LostCounter()), self.hold(LostCounter())

    def choose_functions(self, target: BoundTarget) -> Chooses:
        """Choose the programs on the functions, and load what forgets threads."""
        self.count_lost(self._lost, f"mutexes found no room among the {MOST_HELD} that are held")
        self.load_states(self._waiting)
        self._thread = target.tid
        written = MutexPrograms(
            # Who has a mutex may be another thread than the one that is asked about.
            tasks=self.tasks.filter if target.tid is None else OneProcess(target.processes[0].pid),
            thread=target.tid,
            waiting=self._waiting,
            held=self._held_mutexes,
            take_task=self.take_task,
            transport=self.transport,
            lost=self._lost,
            abandoned=self._ended,
        )
        self.load_tracepoint("sched_process_exit", written.write_exit)
        return SameFunctions(written.list_functions())

    def detach(self) -> None:
        """Keep what has not ended, and how many threads ended as they waited."""
        super().detach()
        self._abandoned = self._ended.read_count()

    def fields(self) -> Mapping[str, int]:
        """Return how many events there are, and how many threads ended as they waited for a mutex or a condition."""
        return {**super().fields(), "abandoned": self._abandoned}

    def get_spans(self) -> Map:
        """Return the mutexes that are held."""
        return self._held_mutexes

    def read_left(self) -> Records:
        """Read the locks that are waited for and held, but those of processes that have ended with them."""
        left = np.concatenate([self._waiting.table.read().values, super().read_left()])
        if self._thread is not None:
            left = left[left["thread"] == self._thread]
        gone = [pid for pid in np.unique(left["process"]).tolist() if has_ended("/", pid)]
        return left[~np.isin(left["process"], gone)]

    def end_at(self, records: Records, left: Records, closed_ns: int) -> tuple[Records, int]:
        """End at the close what had not ended, as one that was waited for or that was held."""
        return end_at(records, left, closed_ns)

    def make_columns(self, records: Records) -> Columns:
        """Make columns of the locks."""
        names = self.context.names
        keys, attributes = self.task_fields.make_columns(records, names)
        is_contended = records["holder"] != 0
        made = {
            "wait_ns": _make_time(records["wait_ns"]),
            "held_ns": _make_time(records["held_ns"]),
            "acquisitions": Column((records["acquired_ns"] != 0).astype(np.int64)),
            "contended": Column(is_contended.astype(np.int64)),
            "holder": Column(records["holder"].astype(np.int64), is_contended),
            "addr": make_address_column(records["addr"], names),
        }
        if self.resolved.shows("holder_comm"):
            comm = make_text_column(records["holder_comm"], names)
            made["holder_comm"] = Column(np.where(is_contended, comm.values, -1), None, names)
        return Columns(keys, {**made, **attributes}, stack=self.make_stacks(records))


class MutexLinks(Mutexes):
    """The same programs, the places of each in one link."""

    is_multi = True


def end_at(records: Records, left: Records, closed_ns: int) -> tuple[Records, int]:
    """End at the close of a window what had not ended then, and return all with how many these are.

    Of a mutex that was waited for then, the wait until there; of one that was held, the time that it was.
    """
    is_late = (records["ns"] > closed_ns) & (records["began_ns"] < closed_ns)
    unfinished = np.concatenate([records[is_late], left[left["began_ns"] < closed_ns]])
    is_held = (unfinished["acquired_ns"] != 0) & (unfinished["acquired_ns"] < closed_ns)
    waited = closed_ns - unfinished["began_ns"].astype(np.int64)
    unfinished["wait_ns"] = np.where(is_held, unfinished["wait_ns"], waited)
    unfinished["held_ns"] = np.where(is_held, closed_ns - unfinished["acquired_ns"].astype(np.int64), ABSENT)
    unfinished["acquired_ns"] = np.where(is_held, unfinished["acquired_ns"], 0)
    unfinished["ns"] = closed_ns
    whole = np.concatenate([records[~is_late], unfinished])
    return whole[np.argsort(whole["ns"], kind="stable")], len(unfinished)


def _make_time(times: npt.NDArray[np.int64]) -> Column:
    present = times != ABSENT
    return Column(times.astype(np.int64), None if present.all() else present)

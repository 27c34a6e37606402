"""The recorder at work: it waits for events, follows session files, and keeps what it sees in the journal."""

from __future__ import annotations

import contextlib
import json
import select
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from omn_agent.harness import Harness
from omn_agent.importing.fields import find_count, find_text, parse_time
from omn_agent.recorder.allowed import filter_record
from omn_agent.recorder.clock import Reading, Timeline, read_clocks
from omn_agent.recorder.event import EventSource, HarnessEvent
from omn_agent.recorder.follow import Follower
from omn_agent.recorder.journal import Journal
from omn_agent.recorder.launch import iter_ancestors, read_start, read_usage, reap
from omn_agent.recorder.places import Places, find_open_files, list_children
from omn_agent.recorder.signals import Wakeup
from omn_core.api import Launched, OmnError

if TYPE_CHECKING:
    from omn_core.api import Alongside  # which brings numpy

_SECOND_NS = 1_000_000_000
_CLOCKS_EVERY_S = 10

ENDED = "harness-exit"
STOPPED = "stopped"


@attrs.define(kw_only=True)
class Recorder:
    """One recording under way, of one launched harness."""

    places: Places
    has_content: bool
    journal: Journal
    sources: Sequence[EventSource]
    launched: Launched
    wakeup: Wakeup
    follower: Follower
    readings: list[Reading]
    beside: Alongside | None = None
    _files: dict[Path, int] = attrs.field(factory=dict)
    _owned: set[Path] = attrs.field(factory=set)
    _processes: set[int] = attrs.field(factory=set)
    _seconds: int = 0
    _said: dict[str, int] = attrs.field(factory=dict)
    _cpu_us: dict[int, int] = attrs.field(factory=dict)

    def run(self) -> str:
        """Record until the harness ends, or a SIGTERM or SIGHUP says to stop, and return which it was."""
        self._note_process(self.launched.pid)
        with contextlib.closing(select.epoll()) as epoll:
            by_descriptor = {source.fileno(): source for source in self.sources}
            for descriptor in (self.launched.pidfd, self.wakeup.fileno(), *by_descriptor):
                epoll.register(descriptor, select.EPOLLIN)
            due_ns = time.monotonic_ns() + _SECOND_NS
            reason = None
            while reason is None:
                for descriptor, _ in epoll.poll(max(0, due_ns - time.monotonic_ns()) / _SECOND_NS):
                    if descriptor in by_descriptor:
                        self._receive(by_descriptor[descriptor])
                    elif descriptor == self.launched.pidfd:
                        reason = ENDED
                    elif self.wakeup.is_stopped():
                        reason = STOPPED
                if time.monotonic_ns() >= due_ns:
                    self._do_each_second()
                    due_ns = time.monotonic_ns() + _SECOND_NS
        self._end(reason)
        return reason

    def _receive(self, source: EventSource) -> None:
        for event in source.receive():
            self._keep(event)

    def _keep(self, event: HarnessEvent) -> None:
        self.journal.add("event", s=event.stamp_ns, i=event.session_id, n=event.kind, p=dict(event.payload))
        for name in ("transcript_path", "agent_transcript_path"):
            path = find_text(event.payload, name)
            if path is not None:
                self._own(Path(path), event.kind.partition(".")[0])
        pid = find_count(event.payload, "pid")
        if pid is not None:
            self._note_process(pid)

    def _own(self, path: Path, how: str, pid: int | None = None) -> None:
        """Keep that a session file is the launched harness's beyond doubt, how that is known, and whose it is."""
        if path not in self._owned:
            self._owned.add(path)
            self.journal.add("owned", path=str(path), how=how, pid=pid)

    def _note_process(self, pid: int) -> None:
        if pid not in self._processes:
            self._processes.add(pid)
            start_ns = read_start(pid, Timeline(self.readings))
            parent = next((found for found in iter_ancestors(pid) if found in self._processes), None)
            if start_ns is not None:
                self.journal.add("process", pid=pid, start_ns=start_ns, parent=parent)

    def _look(self, is_last: bool = False) -> None:
        """Read what the session files have grown by.

        Once a hook of Claude Code's named its session there is no need to look at all that are in its folder: hooks
        name every other one too.
        """
        is_named = self.places.harness is Harness.CLAUDE and self._owned
        others = () if is_named else self.places.iter_files()
        for path in dict.fromkeys([*self._owned, *self._iter_children(), *others]):
            while True:
                for record in self.follower.read(path, is_last):
                    self._keep_record(path, record)
                if not self.follower.has_more(path):
                    break

    def _iter_children(self) -> Iterator[Path]:
        for path in list(self._owned):
            yield from list_children(path)

    def _keep_record(self, path: Path, record: dict[str, Any]) -> None:
        """Keep a line; of what was before the recording no content is."""
        recorded_us = find_count(record, "recorded_at")
        when_ns = recorded_us * 1000 if recorded_us is not None else parse_time(record.get("timestamp"))
        is_before = when_ns is not None and when_ns < self.readings[0].realtime_ns
        kept = filter_record(self.places.harness, record, self.has_content and not is_before)
        if kept is None:
            return
        if path not in self._files:
            self._files[path] = len(self._files)
            self.journal.add("file", f=self._files[path], path=str(path))
        self.journal.add("line", f=self._files[path], r=kept)

    def _do_each_second(self) -> None:
        self._seconds += 1
        for source in self.sources:
            self._receive(source)
        if self.places.harness in (Harness.CODEX, Harness.MUSE):  # the others open their files for each line alone
            for path, pid in find_open_files(self.launched.pid, self.places.get_root()).items():
                self._note_process(pid)
                self._own(path, "descriptor", pid)
        self._look()
        self._sample()
        if self._seconds % _CLOCKS_EVERY_S == 0:
            self._read_clocks()
        self._keep_losses()
        self._keep_depth(time.clock_gettime_ns(time.CLOCK_MONOTONIC))
        self.journal.flush()

    def _sample(self) -> None:
        """Keep the memory and the CPU time of each process that has a session, the time since the sample before."""
        for pid in list(self._processes):
            usage = read_usage(pid)
            if usage is None:  # it is no more
                self._processes.discard(pid)
                continue
            resident_bytes, cpu_us = usage
            before_us = self._cpu_us.get(pid)
            if before_us is not None:
                now_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
                self.journal.add("sample", s=now_ns, pid=pid, resident_bytes=resident_bytes, cpu_us=cpu_us - before_us)
            self._cpu_us[pid] = cpu_us

    def _read_clocks(self) -> None:
        reading = read_clocks()
        self.readings.append(reading)
        self.journal.add("clock", clocks=attrs.astuple(reading))

    def _take_machine(self) -> None:
        """Keep what the run beside the recording found, or say that it failed."""
        if self.beside is None:
            return
        try:
            for line in self.beside.finish().splitlines():
                self.journal.add("machine", part=json.loads(line))
        except OmnError as error:
            self.journal.add("degraded", text=f"what the machine did is not known: {error}")

    def _keep_losses(self) -> None:
        """Keep how much was lost so far, where that has grown."""
        lost = dict(self.journal.lost)
        for name in ("malformed", "too_long", "replaced"):
            lost[f"{name}_lines" if name != "replaced" else "replaced_files"] = getattr(self.follower, name)
        for source in self.sources:
            for reason, count in source.count_losses().items():
                lost[reason] = lost.get(reason, 0) + count
        known = {reason: count for reason, count in lost.items() if count}
        if known != self._said:
            self._said = known
            self.journal.add("losses", s=time.clock_gettime_ns(time.CLOCK_MONOTONIC), counts=known)

    def _keep_depth(self, now_ns: int) -> None:
        """Keep how many lines waited for the journal, at most, since this was kept last."""
        self.journal.add("queue", s=now_ns, depth=self.journal.take_depth())

    def _end(self, reason: str) -> None:
        """Take what is there at the end, and close the journal."""
        now_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        for source in self.sources:
            self._receive(source)
        self._look(is_last=reason == ENDED)
        self._read_clocks()
        self._take_machine()
        for source in self.sources:
            for text in source.list_degradations():
                self.journal.add("degraded", text=text)
        self._keep_losses()
        self._keep_depth(now_ns - 1)
        self.journal.add("end", s=now_ns, reason=reason, code=reap(self.launched) if reason == ENDED else None)
        self.journal.close()

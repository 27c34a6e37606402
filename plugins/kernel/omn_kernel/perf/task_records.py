"""What a target's tasks start, execute and map, from an event that counts nothing and tells of them."""

from __future__ import annotations

import attrs

from omn_core.api import BoundTarget
from omn_kernel.cgroup import CgroupPlace
from omn_kernel.perf.attributes import EventAttributes, Sampling
from omn_kernel.perf.events import PerfEvent, get_event
from omn_kernel.perf.followed_tasks import FollowedTasks
from omn_kernel.perf.opening import EventOpener
from omn_kernel.perf.records import Lost, parse_records
from omn_kernel.perf.sampled import SampledEvents

_SAMPLING = Sampling(period=1, records_tasks=True)


class TaskRecords:
    """Tells `tasks` what a target's processes do, from the attach on. Raises MachineRefused where no event is opened.

    Of a cgroup, whose tasks no event need be able to tell apart, it tells of every task of the machine. `lost` counts
    what found no room: a mapping among it is read from /proc where its process lives.
    """

    def __init__(self, target: BoundTarget, tasks: FollowedTasks, now_ns: int, *, is_held: bool) -> None:
        self._tasks = tasks
        self.lost = 0

        def make(event: PerfEvent, _is_user_only: bool) -> EventAttributes:
            # It counts nothing, in nobody's code: without the kernel's a user may open it on processes of their own.
            return EventAttributes(
                event.kind,
                event.config,
                is_disabled=True,
                inherits=bool(target.processes) and target.tid is None,
                enable_on_exec=is_held,
                exclude_kernel=True,
                reads_times=True,
                sampling=_SAMPLING,
            )

        asked = attrs.evolve(target, place=None) if isinstance(target.place, CgroupPlace) else target
        self._events = SampledEvents(asked, EventOpener(get_event("sw:dummy"), make), _SAMPLING)
        tasks.follow_target([handle.pid for handle in target.processes], now_ns, is_held=is_held)
        if not is_held:
            self._events.enable()

    def take(self, until_ns: int) -> None:
        """Take what the tasks did since the last time, until a moment before which this was called."""
        records = parse_records(self._events.drain(), _SAMPLING).others
        self.lost += sum(one.count for one in records if isinstance(one, Lost))
        self._tasks.note([one for one in records if not isinstance(one, Lost)], until_ns)
        self._tasks.symboliser.read_growth()

    def finish(self, until_ns: int) -> None:
        """Take what is left, and end."""
        self._events.disable()
        self.take(until_ns)
        self._tasks.note_late()
        self._events.close()

    def close(self) -> None:
        """Let go of the events and of what was read of the tasks."""
        self._events.close()
        self._tasks.symboliser.close()

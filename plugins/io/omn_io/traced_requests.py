"""Block requests as programs follow them, whatever is made of those that complete."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.collecting import ProgramCollector
from omn_kernel.bpf.filters import AnyTask
from omn_kernel.bpf.reading import TaskAssembly
from omn_kernel.bpf.tasks import TaskFields

from omn_core.api import BoundTarget, ResolvedRequest, RunContext
from omn_io.programs.completions import CompletionCounts
from omn_io.programs.requests import MOST_REQUESTS, RequestPrograms
from omn_io.request_account import RequestAccount
from omn_io.request_names import RECORDED_OPERATIONS, DeviceNames, find_device, read_operations


class AccountedRequests(ProgramCollector, ABC):
    """A collector of requests that is held to what devices count themselves. Its programs count what they see."""

    def open_counts(self, target: BoundTarget) -> None:
        """Open what programs count in, as `completions`, and find which device the target names, if one."""
        self.devices = DeviceNames()
        self.device = find_device(target)
        self.completions = self.hold(CompletionCounts())
        self._account = RequestAccount(self.completions, self._find_devices)

    def _find_devices(self) -> Mapping[int, str]:
        self.devices.look()
        devices = self.devices.with_requests
        return {number: name for number, name in devices.items() if self.device in (None, number)}

    def attach(self, target: BoundTarget) -> None:
        """Attach, and read what devices have counted."""
        super().attach(target)
        self._account.open(self.context.clock())

    def detach(self) -> None:
        """Detach, and lose what devices counted beside what programs saw."""
        is_everybodys = isinstance(self.tasks.filter, AnyTask)
        unseen = self._account.close(is_everybodys=is_everybodys)
        super().detach()
        found_no_room = self.find_lost()
        count = sum(one.completed for one in unseen) + max(0, sum(one.unbegun for one in unseen) - found_no_room)
        names = " and ".join(name for one in unseen for name in one.devices)
        whose = "" if is_everybodys else ", of whatever tasks,"
        self.note_unseen(count, f"requests of {names}{whose} passed no tracepoint where they began or ended")

    @abstractmethod
    def find_lost(self) -> int:
        """Find how many requests found no room when they began."""


class TracedRequests(AccountedRequests, ABC):
    """A collector of the target's requests. What began before the programs were attached is counted in a field.

    `operations` and `devices` name what a request does and to what, `task_fields` are what the answer shows of whoever
    inserted it.
    """

    _unknown = _unfinished = 0

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Find what the answer shows of a task, and open what needs no target."""
        self.task_fields = TaskFields(resolved)
        super().prepare(resolved, context)

    def write_programs(self, target: BoundTarget) -> None:
        """Load the programs on the life of a request, the last of them first: none is seen to begin without its end."""
        self.operations = RECORDED_OPERATIONS if self.reads_records else read_operations(self.types)
        self.open_counts(target)
        self.task_fields.look()
        tasks = None if isinstance(self.tasks.filter, AnyTask) else self.tasks.filter
        self._requests = self.hold(
            RequestPrograms(tasks, self.task_fields, self.device, self.completions, reads_records=self.reads_records)
        )
        reason = f"requests began while {MOST_REQUESTS} others, as many as are remembered, were under way"
        self.count_lost(self._requests.lost, reason)
        self._requests.load(self, self.take)

    def find_lost(self) -> int:
        """Find how many requests found no room when they began."""
        return self._requests.lost.read_count()

    @abstractmethod
    def take(self, program: TaskAssembly, seen: Record) -> None:
        """Emit what takes a request that has completed, R6 holding the context and R8 pointing to its entry."""

    def detach(self) -> None:
        """Keep how many requests were not seen to begin, and how many have not completed."""
        super().detach()
        self._unknown = self._requests.unknown.read_count()
        self._unfinished = self._requests.count_unfinished()

    def fields(self) -> Mapping[str, int]:
        """Return how many requests had begun before, of whomever, and how many of the target's had not completed."""
        return {**super().fields(), "begun_before": self._unknown, "unfinished": self._unfinished}

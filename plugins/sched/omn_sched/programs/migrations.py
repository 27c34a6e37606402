"""Moves of tasks from one cpu's run queue to another's, where the kernel decides them (set_task_cpu)."""

from __future__ import annotations

from omn_kernel.bpf.filters import OnCpus
from omn_kernel.bpf.reading import KernelAssembly, TaskAssembly
from omn_kernel.bpf.records import RecordedAssembly
from omn_kernel.bpf.registers import R1, R6, R7, R8
from omn_kernel.bpf.tracing import Label, Tracer, Tracing

_INTEGER = 0xFFFF


class TaskMigrations(Tracer):
    """Moves of a target's tasks; of cpus, moves to one of them."""

    unit = "migrations"
    labels = (Label("cpu"), Label("from_cpu"))

    def load(self, tracing: Tracing) -> None:
        """Load what sees a task moved."""
        tracing.load_event("sched_migrate_task", lambda program: self.write_migrate(program, tracing))

    def write_migrate(self, program: TaskAssembly, tracing: Tracing) -> None:
        """Write sched_migrate_task(task, cpu), which whoever moves the task passes."""
        event = tracing.reserve(program)
        program.move(R6, R1)
        program.read_argument(R7, R6, 0)
        program.read_argument(R8, R6, 1)
        program.compute(R8, "&=", _INTEGER)
        self._keep(program, tracing)
        program.set(event, "cpu", R8)
        _read_cpu(program)
        program.set(event, "from_cpu", R1)
        tracing.write(program, event, R7, R6)
        program.label("done")
        program.leave(0)

    def _keep(self, program: TaskAssembly, tracing: Tracing) -> None:
        """Leave out what is not the target's: a cpu's are the tasks that come to it, wherever that is decided."""
        keeper = tracing.tasks.filter
        if not isinstance(keeper, OnCpus):
            keeper.keep(program, R7, "done")
            return
        for cpu in keeper.cpus:
            program.jump_if(R8, "==", cpu, "to_these")
        program.jump("done")
        program.label("to_these")


def _read_cpu(program: TaskAssembly) -> None:
    """Set R1 to the cpu that the task in R7 was on, R6 holding the tracepoint's arguments."""
    if isinstance(program, RecordedAssembly):
        program.read_record(R1, R6, program.fields["orig_cpu"])
    elif isinstance(program, KernelAssembly):
        # Linux 5.16 keeps the cpu that a task is on with what the architecture keeps of it.
        field = "thread_info.cpu" if program.has_field("thread_info", "cpu") else "cpu"
        program.read_field(R1, R7, "task_struct", field)

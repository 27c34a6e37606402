"""Processes that the kernel chooses to kill for want of memory, seen where it marks one (mark_oom_victim)."""

from __future__ import annotations

from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R0, R1, R2, R6, R7, R8
from omn_kernel.bpf.tracing import Label, Tracer, Tracing
from omn_kernel.procfs.task import PAGE_BYTES

_PARTS = (0, 1, 3)
"""MM_FILEPAGES, MM_ANONPAGES and MM_SHMEMPAGES of <linux/mm_types_task.h>: what is resident of a process."""
_COMM_BYTES = 16


class Victims(Tracer):
    """Victims among a target's processes, each with what it had resident, as the kernel's own message says it.

    Who asked for the memory that was not there is the task that runs: it need not be the victim, nor of the target.
    """

    measured = ("rss_bytes",)
    unit = "kills"
    labels = (Label("oom_score_adj"), Label("asker_pid"), Label("asker_comm", f"S{_COMM_BYTES}"))

    def load(self, tracing: Tracing) -> None:
        """Load what sees a victim marked."""
        tracing.load_tracepoint("mark_victim", lambda program: self.write_mark(program, tracing))

    def write_mark(self, program: KernelAssembly, tracing: Tracing) -> None:
        """Write mark_victim(task, user)."""
        event = tracing.reserve(program)
        program.move(R6, R1)
        program.read_argument(R7, R6, 0)
        tracing.tasks.filter.keep(program, R7, "done")
        self._add_resident(program)
        program.set(event, "rss_bytes", R8)
        program.read_field(R1, R7, "task_struct", "signal.oom_score_adj")
        program.set(event, "oom_score_adj", R1)
        self._set_asker(program, event)
        tracing.write(program, event, R7, R6)
        program.label("done")
        program.leave(0)

    def _add_resident(self, program: KernelAssembly) -> None:
        """Set R8 to the bytes that the process of R7 has resident, up to what its cpus have not added up yet."""
        # Linux 6.2 keeps the counters for each cpu, and their sum under another name.
        pattern = "mm.rss_stat[{}].count"
        if not program.has_field("mm_struct", "rss_stat[0].count"):
            pattern = "mm.rss_stat.count[{}].counter"
        program.move(R8, 0)
        for part in _PARTS:
            program.read_field(R1, R7, "task_struct", pattern.format(part))
            with program.when(R1, "s>", 0):
                program.compute(R8, "+=", R1)
        program.compute(R8, "*=", PAGE_BYTES)

    def _set_asker(self, program: KernelAssembly, event: Record) -> None:
        program.call("get_current_pid_tgid")
        program.compute(R0, ">>=", 32)
        program.set(event, "asker_pid", R0)
        program.point_at(R1, event, "asker_comm")
        program.move(R2, _COMM_BYTES)
        program.call("get_current_comm")

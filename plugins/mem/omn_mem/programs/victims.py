"""Processes that the kernel chooses to kill for want of memory, seen where it marks one (mark_oom_victim).

Before Linux 6.9 the mark tells the victim's number alone. The kernel has sent it SIGKILL just before then, in the same
task's time (__oom_kill_process), so that who was sent one last is remembered under the task that sent it.
"""

from __future__ import annotations

import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.hooks import RawTracepoint, TypedTracepoint
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R0, R1, R2, R6, R7, R8
from omn_kernel.bpf.tracing import Label, Tracer, Tracing
from omn_kernel.btf.spelling import spell_tracepoint
from omn_kernel.procfs.task import PAGE_BYTES

_PARTS = (0, 1, 3)
"""MM_FILEPAGES, MM_ANONPAGES and MM_SHMEMPAGES of <linux/mm_types_task.h>: what is resident of a process."""
_COMM_BYTES = 16
_SENDER = np.dtype([("task", np.uint32)])
_VICTIM = np.dtype([("task", np.uint64)])
_MOST_SENDERS = 1 << 12
_KILL, _BY_KERNEL = 9, 1
"""SIGKILL, and SEND_SIG_PRIV of <linux/sched/signal.h>."""


class Victims(Tracer):
    """Victims among a target's processes, each with what it had resident, as the kernel's own message says it.

    Who asked for the memory that was not there is the task that runs: it need not be the victim, nor of the target.
    """

    measured = ("rss_bytes",)
    unit = "kills"
    labels = (Label("oom_score_adj"), Label("asker_pid"), Label("asker_comm", f"S{_COMM_BYTES}"))

    def load(self, tracing: Tracing) -> None:
        """Load what sees a victim marked, and where the mark is a number what sees who was sent a signal before."""
        hook = TypedTracepoint("mark_victim", tracing.types)
        if len(spell_tracepoint(tracing.types, hook.get_attach_id())) > 1:
            tracing.load_tracepoint("mark_victim", lambda program: self.write_mark(program, tracing))
            return
        self._victims = tracing.hold(Map(MapType.LRU_HASH, "victims", _SENDER, _VICTIM, _MOST_SENDERS))
        tracing.load_tracepoint("signal_generate", self.write_sent)
        program = KernelAssembly("omn_mark_number", tracing.types, has_typed_pointers=False)
        self.write_mark_of_number(program, tracing)
        tracing.programs.load(program, RawTracepoint("mark_victim"))

    def write_mark(self, program: KernelAssembly, tracing: Tracing) -> None:
        """Write mark_victim(task, user)."""
        event = tracing.reserve(program)
        program.move(R6, R1)
        program.read_argument(R7, R6, 0)
        self._write_victim(program, tracing, event)

    def write_sent(self, program: KernelAssembly) -> None:
        """Write signal_generate(number, information, task, to the whole process, result)."""
        sender, victim = program.reserve(_SENDER), program.reserve(_VICTIM)
        program.move(R6, R1)
        program.read_argument(R1, R6, 0)
        program.compute(R1, "&=", 0xFF)
        program.jump_if(R1, "!=", _KILL, "done")
        program.read_argument(R1, R6, 1)
        program.jump_if(R1, "!=", _BY_KERNEL, "done")
        program.read_argument(R1, R6, 2)
        program.set(victim, "task", R1)
        program.call("get_current_pid_tgid")
        program.set(sender, "task", R0)
        program.update(self._victims, sender, victim)
        program.label("done")
        program.leave(0)

    def write_mark_of_number(self, program: KernelAssembly, tracing: Tracing) -> None:
        """Write mark_victim(number). One that was sent no signal was ending by itself, and is no victim of anybody."""
        event, sender = tracing.reserve(program), program.reserve(_SENDER)
        program.move(R6, R1)
        program.call("get_current_pid_tgid")
        program.set(sender, "task", R0)
        program.look_up(self._victims, sender)
        program.jump_if(R0, "==", 0, "done")
        program.get(R7, Record(R0, _VICTIM), "task")
        program.delete(self._victims, sender)
        program.read_field(R8, R7, "task_struct", "pid")
        program.read_argument(R1, R6, 0)
        program.compute(R1, "<<=", 32)
        program.compute(R1, ">>=", 32)
        program.jump_if(R1, "!=", R8, "done")
        self._write_victim(program, tracing, event)

    def _write_victim(self, program: KernelAssembly, tracing: Tracing, event: Record) -> None:
        """Hand the victim of R7 over."""
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

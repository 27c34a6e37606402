"""Signals, each where it is sent (send_signal_locked), with what becomes of it there.

Who sends is the task that runs, where it asked for it (kill, tgkill, sigqueue) or where the signal tells of its end
(SIGCHLD). Any other signal is the kernel's: of a timer, a terminal, a fault.
"""

from __future__ import annotations

from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R0, R1, R2, R6, R7, R8, R9
from omn_kernel.bpf.tracing import ABSENT, Label, Tracer, Tracing

from omn_proc.signal_names import spell_signal

_RESULTS = ("sent", "ignored", "merged", "failed", "sent")
"""TRACE_SIGNAL_DELIVERED and the others of <trace/events/signal.h>; the last lost what was to go with it."""
_PRIVATE = 1
"""SEND_SIG_PRIV of <linux/sched/signal.h>: from the kernel; 0 stands for the task that runs."""
ASKED_CODES = (0, -1, -6)
"""SI_USER, SI_QUEUE, SI_TKILL of <asm-generic/siginfo.h>."""
CHILD = 17
_INTEGER = 0xFFFF


def _name_result(number: int) -> str | None:
    return _RESULTS[number] if number < len(_RESULTS) else None


class SentSignals(Tracer):
    """Signals that are sent to tasks of a target, each under the task that it is sent to."""

    unit = "signals"
    labels = (
        Label("signal", spell=spell_signal),
        Label("op", spell=_name_result),
        Label("sender_pid"),
        Label("sender_comm", "S16"),
    )

    def load(self, tracing: Tracing) -> None:
        """Load what sees a signal sent."""
        tracing.load_tracepoint("signal_generate", lambda program: self.write_generate(program, tracing))

    def write_generate(self, program: KernelAssembly, tracing: Tracing) -> None:
        """Write signal_generate(number, information, task, to the whole process, result)."""
        event = tracing.reserve(program)
        program.move(R6, R1)
        program.read_argument(R7, R6, 2)
        tracing.tasks.filter.keep(program, R7, "done")
        for field, position in (("signal", 0), ("op", 4)):
            program.read_argument(R1, R6, position)
            program.compute(R1, "&=", _INTEGER)
            program.set(event, field, R1)
        self._set_sender(program, event)
        tracing.write(program, event, R7, R6)
        program.label("done")
        program.leave(0)

    def _set_sender(self, program: KernelAssembly, event: Record) -> None:
        """Set who sends, nobody where it is the kernel."""
        program.set(event, "sender_pid", ABSENT)
        program.read_argument(R8, R6, 1)
        program.jump_if(R8, "==", _PRIVATE, "sent")
        program.jump_if(R8, "==", 0, "asked")
        program.get(R1, event, "signal")
        program.jump_if(R1, "==", CHILD, "asked")
        program.read_field(R9, R8, "kernel_siginfo", "si_code", is_copied=True)
        for code in ASKED_CODES:
            program.jump_if(R9, "==", code, "asked")
        program.jump("sent")
        program.label("asked")
        program.call("get_current_pid_tgid")
        program.compute(R0, ">>=", 32)
        program.set(event, "sender_pid", R0)
        program.point_at(R1, event, "sender_comm")
        program.move(R2, 16)
        program.call("get_current_comm")
        program.label("sent")

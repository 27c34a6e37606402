"""What programs on classic tracepoints take from their records: whose each event is, and what it is.

R6 holds the record, and R7 and R8 the thread and the process from where it is found whose the event is. An event that
is not the target's goes to `done`.
"""

from __future__ import annotations

from collections.abc import Mapping

from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.reading import RecordAssembly
from omn_kernel.bpf.recorded import RecordedCollector, set_current_name
from omn_kernel.bpf.registers import R0, R1, R2, R3, R6, R7, R8, R9
from omn_kernel.bpf.tracing import ABSENT
from omn_kernel.tracepoints import RecordField

from omn_proc.programs.makings import CLONE_THREAD
from omn_proc.programs.signals import ASKED_CODES, CHILD

Fields = Mapping[str, RecordField]


def write_exec(program: RecordAssembly, collector: RecordedCollector, event: Record, _fields: Fields) -> None:
    """Write sched/sched_process_exec: the task that runs has another program."""
    collector.keep_current(program, "done")
    collector.set_current(program, event)


def write_making(program: RecordAssembly, collector: RecordedCollector, event: Record, fields: Fields) -> None:
    """Write task/task_newtask: the task that runs has made another."""
    collector.keep_current(program, "done")
    collector.set_current(program, event)
    program.read_record(R1, R6, fields["pid"])
    program.set(event, "child", R1)
    program.set(event, "kind", 0)
    program.read_record(R1, R6, fields["clone_flags"])
    program.compute(R1, "&=", CLONE_THREAD)
    with program.when(R1, "!=", 0):
        program.set(event, "kind", 1)


def write_end(program: RecordAssembly, collector: RecordedCollector, event: Record, fields: Fields) -> None:
    """Write sched/sched_process_exit: the last thread of a process, or its first where the record does not tell it."""
    collector.keep_current(program, "done")
    if "group_dead" in fields:
        program.read_record(R1, R6, fields["group_dead"])
        program.jump_if(R1, "==", 0, "done")
    else:
        program.jump_if(R7, "!=", R8, "done")
    program.move(R7, R8)
    collector.set_current(program, event)


def write_signal(program: RecordAssembly, collector: RecordedCollector, event: Record, fields: Fields) -> None:
    """Write signal/signal_generate: whom it is sent to the record says, and the code of it who sent it."""
    program.read_record(R7, R6, fields["pid"])
    collector.keep(program, R7, R8, "done")
    program.set(event, "task", R7)
    program.set(event, "pid", R8)
    program.point_at(R1, event, "comm")
    program.move(R2, fields["comm"].size)
    program.move(R3, R6)
    program.compute(R3, "+=", fields["comm"].offset)
    program.call("probe_read_kernel")
    for label, field in (("signal", "sig"), ("op", "result")):
        program.read_record(R1, R6, fields[field])
        program.set(event, label, R1)
    program.set(event, "sender_pid", ABSENT)
    program.get(R1, event, "signal")
    program.jump_if(R1, "==", CHILD, "asked")
    program.read_record(R9, R6, fields["code"])
    for code in ASKED_CODES:
        program.jump_if(R9, "==", code, "asked")
    program.jump("sent")
    program.label("asked")
    program.call("get_current_pid_tgid")
    program.compute(R0, ">>=", 32)
    program.set(event, "sender_pid", R0)
    set_current_name(program, event, "sender_comm")
    program.label("sent")

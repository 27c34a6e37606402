"""The states of TCP as programs compare them (<net/tcp_states.h>), and whose doing a change of one is."""

from __future__ import annotations

from omn_kernel.bpf.reading import KernelAssembly, TaskAssembly
from omn_kernel.bpf.records import RecordedAssembly
from omn_kernel.bpf.registers import R1, Register

(
    ESTABLISHED,
    SYN_SENT,
    SYN_RECV,
    FIN_WAIT1,
    FIN_WAIT2,
    TIME_WAIT,
    CLOSE,
    CLOSE_WAIT,
    LAST_ACK,
    LISTEN,
    CLOSING,
    REQUEST,
) = range(1, 13)
_TCP = 6
_PROCESSES_OWN = (SYN_SENT, LISTEN, FIN_WAIT1, LAST_ACK)
"""The states that a call takes a socket to, and no packet or timer ever does: connect, listen, shutdown and close."""


def skip_other_protocols(program: TaskAssembly, context: Register, socket: Register, otherwise: str) -> None:
    """Emit what goes to a label where a socket is not TCP's: SCTP and MPTCP have states of the same names.

    `context` is what R1 held when the program on inet_sock_set_state began.
    """
    if isinstance(program, KernelAssembly):
        program.read_field(R1, socket, "sock", "sk_protocol")
    elif isinstance(program, RecordedAssembly):
        program.read_record(R1, context, program.fields["protocol"])
    program.jump_if(R1, "!=", _TCP, otherwise)


def skip_kernels_own_changes(
    program: TaskAssembly, socket: Register, otherwise: str, *, state: Register | None = None
) -> None:
    """Emit what goes to a label where no process holds the lock of a socket.

    Packets and timers that find it held wait for its holder, who serves them when it lets go. So whoever runs while it
    is held is the holder, and elsewhere whoever a packet or a timer interrupted.

    A record does not tell of the lock: of a change of state those count that a call alone makes, by the `state` that it
    goes to. Other events that are asked about here (None) are a process's own but for sockets that nobody has.
    """
    if isinstance(program, KernelAssembly):
        program.read_field(R1, socket, "sock", "sk_lock.owned")
        program.jump_if(R1, "==", 0, otherwise)
    elif state is not None:
        own = program.make_label("own")
        for one in _PROCESSES_OWN:
            program.jump_if(state, "==", one, own)
        program.jump(otherwise)
        program.label(own)

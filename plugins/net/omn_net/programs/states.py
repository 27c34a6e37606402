"""The states of TCP as programs compare them (<net/tcp_states.h>), and whose doing a change of one is."""

from __future__ import annotations

from omn_kernel.bpf.reading import KernelAssembly
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


def skip_other_protocols(program: KernelAssembly, socket: Register, otherwise: str) -> None:
    """Emit what goes to a label where a socket is not TCP's: SCTP and MPTCP have states of the same names."""
    program.read_field(R1, socket, "sock", "sk_protocol")
    program.jump_if(R1, "!=", _TCP, otherwise)


def skip_kernels_own_changes(program: KernelAssembly, socket: Register, otherwise: str) -> None:
    """Emit what goes to a label where no process holds the lock of a socket.

    Packets and timers that find it held wait for its holder, who serves them when it lets go. So whoever runs while it
    is held is the holder, and elsewhere whoever a packet or a timer interrupted.
    """
    program.read_field(R1, socket, "sock", "sk_lock.owned")
    program.jump_if(R1, "==", 0, otherwise)

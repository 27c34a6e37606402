"""What a privilege refusal says: what is missing, why, and how it is granted. See capabilities(7)."""

from __future__ import annotations

import errno
import os
import struct
import sys
from collections.abc import Mapping, Sequence

import attrs

from omn_core.api import Probe, State
from omn_kernel.polled import read_file
from omn_kernel.procfs.task import find_status_field

_IN_ORDER = """
    chown dac_override dac_read_search fowner fsetid kill setgid setuid setpcap linux_immutable net_bind_service
    net_broadcast net_admin net_raw ipc_lock ipc_owner sys_module sys_rawio sys_chroot sys_ptrace sys_pacct
    sys_admin sys_boot sys_nice sys_resource sys_time sys_tty_config mknod lease audit_write audit_control setfcap
    mac_override mac_admin syslog wake_alarm block_suspend audit_read perfmon bpf checkpoint_restore
"""

CAPABILITIES: Mapping[str, int] = {name: number for number, name in enumerate(_IN_ORDER.split())}
"""Every capability by its name without CAP_, as <linux/capability.h> numbers them."""

SYS_ADMIN = "sys_admin"
_STANDS_IN = frozenset({"perfmon", "bpf", "syslog", "checkpoint_restore"})
_REVISION_2, _REVISION_3, _EFFECTIVE = 0x02000000, 0x03000000, 0x1


@attrs.frozen(repr=False)
class Privileges:
    """The capability sets of this process as bit masks, and whether it may gain none by executing (no_new_privs)."""

    effective: int
    permitted: int
    bounding: int
    no_new_privileges: bool

    def has(self, capability: str) -> bool:
        """Whether a capability, or the one that the kernel takes in its place, is in effect."""
        names = [capability, SYS_ADMIN] if capability in _STANDS_IN else [capability]
        return any(self.effective >> CAPABILITIES[name] & 1 for name in names)


def parse_privileges(status: bytes) -> Privileges:
    """Parse the capability lines of /proc/<pid>/status. A kernel before 4.10 writes no NoNewPrivs: then it is off."""
    effective, permitted, bounding = (
        int(find_status_field(status, name) or "0", 16) for name in ("CapEff", "CapPrm", "CapBnd")
    )
    return Privileges(effective, permitted, bounding, find_status_field(status, "NoNewPrivs") == "1")


def read_privileges(sysroot: str) -> Privileges:
    """Read this process's privileges. Raises OSError where /proc is not there."""
    return parse_privileges(read_file(sysroot, "/proc/self/status"))


@attrs.frozen(repr=False)
class FileGrant:
    """The capabilities that executing a file grants, and whether they are in effect from the start."""

    permitted: int
    effective: bool


def parse_file_grant(attribute: bytes) -> FileGrant:
    """Parse a security.capability attribute (struct vfs_cap_data, revisions 2 and 3). Raises ValueError for others."""
    try:
        magic, low, _, high, _ = struct.unpack_from("<IIIII", attribute)
    except struct.error as error:
        raise ValueError(f"no file capabilities: {error}") from None
    if magic & 0xFF000000 not in (_REVISION_2, _REVISION_3):
        raise ValueError(f"file capabilities of an unknown revision: {magic:#x}")
    return FileGrant(low | high << 32, bool(magic & _EFFECTIVE))


def find_file_grant(path: str) -> FileGrant | None:
    """Find what a file's capabilities grant, None where it has none or its file system keeps none."""
    try:
        return parse_file_grant(os.getxattr(path, "security.capability"))
    except (OSError, ValueError):
        return None


def explain(
    capability: str, sysroot: str = "/", executable: str | None = None, *, beside: Sequence[str] = ()
) -> tuple[str, str]:
    """Say why this process is without a capability, and what would give it: a reason and a remedy, both clauses.

    `beside` names others that are missing with it and that the same purpose takes.
    """
    privileges = read_privileges(sysroot)
    path = os.path.realpath(executable or sys.executable)
    grant = find_file_grant(path)
    mask = 1 << CAPABILITIES[capability]
    name = f"CAP_{capability.upper()}"
    if not privileges.bounding & mask:
        reason = f"{name} is outside this process's bounding set, so that no grant can give it"
        return reason, "start the container or service with that capability allowed"
    if grant is not None and grant.permitted & mask:
        return _explain_withheld(name, path, grant, privileges)
    if privileges.no_new_privileges:
        reason = f"{name} is missing, and no_new_privs is set, so that executing a file grants nothing"
        return reason, "start omn from a process without no_new_privs that has the capability"
    # A program that reads the kernel takes both, and whoever grants one is told of the other.
    is_program = capability == "bpf" or (capability == "perfmon" and privileges.has("bpf"))
    wanted = ["bpf", "perfmon"] if is_program else [capability, *beside]
    missing = " and ".join([name, *(f"CAP_{other.upper()}" for other in beside)])
    return f"{missing} {'are' if beside else 'is'} missing", describe_grant(wanted)


def _explain_withheld(name: str, path: str, grant: FileGrant, privileges: Privileges) -> tuple[str, str]:
    granted = f"{path} carries {name}"
    if privileges.no_new_privileges:
        return f"{granted}, and no_new_privs is set, so that the kernel withheld it", (
            "start omn from a process without no_new_privs"
        )
    if os.statvfs(path).f_flag & os.ST_NOSUID:
        return f"{granted}, and its file system is mounted nosuid, so that the kernel withheld it", (
            "start it from a file system mounted without nosuid"
        )
    if not grant.effective:
        return f"{granted} as permitted and not as effective", "set it with 'e' as well as 'p'"
    return f"{granted}, and this process was not started by executing it", "start it again"


def describe_grant(capabilities: list[str]) -> str:
    """Spell the command that starts omn with capabilities, granted to that one process and to no file."""
    listed = ",".join(f"+{capability}" for capability in capabilities)
    return (
        "run omn as root, or start it with: sudo setpriv --reuid=$(id -u) --regid=$(id -g) --init-groups "
        f"--inh-caps={listed} --ambient-caps={listed} omn ..."
    )


def refuse_permission(what: str, capability: str, error: OSError) -> Probe:
    """Answer restricted for a call that was refused: with the missing capability if one is missing, else as it is."""
    name = errno.errorcode.get(error.errno or 0, str(error.errno))
    privileges = read_privileges("/")
    # What CAP_BPF alone does not open to a program is the kernel's memory, which CAP_PERFMON does beside it.
    takes = ["bpf", "perfmon"] if capability == "bpf" else [capability]
    missing = next((one for one in takes if not privileges.has(one)), None)
    if missing is None:
        return Probe(State.RESTRICTED, f"{what} is refused with {name} although CAP_{capability.upper()} is in effect")
    reason, remedy = explain(missing)
    return Probe(State.RESTRICTED, f"{what} is refused with {name}: {reason}", remedy)

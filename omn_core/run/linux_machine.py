"""What kind of machine this is, and what this user may do on it: read from /proc and /sys."""

from __future__ import annotations

import os
import re
from typing import Any

# fmt: off  # one a line would be forty lines
CAPABILITIES = (
    "chown",
    "dac_override",
    "dac_read_search",
    "fowner",
    "fsetid",
    "kill",
    "setgid",
    "setuid",
    "setpcap",
    "linux_immutable",
    "net_bind_service",
    "net_broadcast",
    "net_admin",
    "net_raw",
    "ipc_lock",
    "ipc_owner",
    "sys_module",
    "sys_rawio",
    "sys_chroot",
    "sys_ptrace",
    "sys_pacct",
    "sys_admin",
    "sys_boot",
    "sys_nice",
    "sys_resource",
    "sys_time",
    "sys_tty_config",
    "mknod",
    "lease",
    "audit_write",
    "audit_control",
    "setfcap",
    "mac_override",
    "mac_admin",
    "syslog",
    "wake_alarm",
    "block_suspend",
    "audit_read",
    "perfmon",
    "bpf",
    "checkpoint_restore",
)
# fmt: on
"""The capabilities by number, as linux/capability.h spells them."""

_SECCOMP = {"0": "none", "1": "strict", "2": "filter"}
_VENDORS = {
    "QEMU": "qemu",
    "Amazon EC2": "amazon",
    "Google": "google",
    "VMware, Inc.": "vmware",
    "innotek GmbH": "virtualbox",
    "Xen": "xen",
    "Bochs": "bochs",
    "Parallels Software International Inc.": "parallels",
    "Microsoft Corporation": "microsoft",
    "OpenStack Foundation": "openstack",
}
_CONTAINER_IN_CGROUP = re.compile(r"\b(docker|kubepods|lxc|libpod|containerd|machine\.slice)\b")
_WHOLE_ID_RANGE = ["0", "0", "4294967295"]


def find_text(sysroot: str, path: str) -> str | None:
    """Return a file's text without its last newline, None where it is not there or may not be read."""
    try:
        with open(os.path.join(sysroot, path.lstrip("/")), "rb") as file:
            return file.read().decode("utf-8", "backslashreplace").strip("\n\0")
    except OSError:
        return None


def find_number(sysroot: str, path: str) -> int | None:
    """Return a file's one number, None where it is not there, may not be read, or holds none."""
    text = find_text(sysroot, path)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """Read `0-3,5`, as /sys/devices/system/cpu spells sets of cpus."""
    cpus: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return tuple(cpus)


def parse_chosen(text: str) -> str | None:
    """Read which of the words is in brackets (`always [madvise] never`), None where none is."""
    found = re.search(r"\[([^\]]*)\]", text)
    return None if found is None else found[1]


def parse_capabilities(mask: str) -> list[str]:
    """Read a capability mask as /proc/<pid>/status spells it; one newer than this list is its number."""
    bits = int(mask, 16)
    names = [name for number, name in enumerate(CAPABILITIES) if bits >> number & 1]
    return names + [f"cap_{number}" for number in range(len(CAPABILITIES), bits.bit_length()) if bits >> number & 1]


def read_privileges(sysroot: str) -> dict[str, Any]:
    """Return who omn is here and what it may do; a value that could not be read is None."""
    status = find_text(sysroot, "proc/self/status") or ""
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    mask, flag = fields.get("CapEff"), fields.get("NoNewPrivs")
    map_of_ids = find_text(sysroot, "proc/self/uid_map")
    return {
        "uid": os.getuid(),
        "euid": os.geteuid(),
        "capabilities": None if mask is None else parse_capabilities(mask),
        "no_new_privs": None if flag is None else flag == "1",
        "user_namespace": None if map_of_ids is None else map_of_ids.split() != _WHOLE_ID_RANGE,
        "seccomp": _SECCOMP.get(fields.get("Seccomp", "")),
    }


def find_hypervisor(sysroot: str) -> str | None:
    """Return which hypervisor this machine runs under: its name, `unnamed`, or `none`; None where nothing tells.

    An x86 guest is told by the cpu's hypervisor flag, any other by its firmware's vendor or its device tree.
    """
    named = find_text(sysroot, "sys/hypervisor/type")
    if named:
        return named
    vendor = find_text(sysroot, "sys/class/dmi/id/sys_vendor")
    product = find_text(sysroot, "sys/class/dmi/id/product_name") or ""
    tree = find_text(sysroot, "proc/device-tree/hypervisor/compatible")
    flags = re.search(r"^flags\s*:(.*)$", find_text(sysroot, "proc/cpuinfo") or "", re.MULTILINE)
    is_guest = None if flags is None else "hypervisor" in flags[1].split()
    if is_guest is False:
        return "none"
    known = _VENDORS.get(vendor or "")
    if known and not (known == "microsoft" and product != "Virtual Machine"):
        return known
    if tree:
        return tree.rpartition(",")[2]
    return "unnamed" if is_guest else None


def find_container(sysroot: str) -> str | None:
    """Return what kind of container this process seems to be in, None where nothing hints at one."""
    named = find_text(sysroot, "run/systemd/container")
    if named:
        return named
    environment = find_text(sysroot, "proc/1/environ") or ""
    stated = [entry.removeprefix("container=") for entry in environment.split("\0") if entry.startswith("container=")]
    if stated and stated[0]:
        return stated[0]
    for path, kind in ((".dockerenv", "docker"), ("run/.containerenv", "podman")):
        if os.path.exists(os.path.join(sysroot, path)):
            return kind
    found = _CONTAINER_IN_CGROUP.search(find_text(sysroot, "proc/1/cgroup") or "")
    return None if found is None else found[1]

"""What a privilege refusal says, by what kept the privilege away."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from omn_kernel import privileges
from omn_kernel.privileges import (
    CAPABILITIES,
    FileGrant,
    Privileges,
    describe_grant,
    explain,
    parse_file_grant,
    parse_privileges,
    read_privileges,
    refuse_permission,
)

from omn_core.testing.sysroot import Sysroot

ALL = (1 << len(CAPABILITIES)) - 1


def write_status(
    sysroot: Sysroot, *, effective: int = 0, permitted: int = 0, bounding: int = ALL, no_new: int = 0
) -> None:
    text = f"Name:\tx\nCapPrm:\t{permitted:016x}\nCapEff:\t{effective:016x}\nCapBnd:\t{bounding:016x}\n"
    sysroot.write("/proc/self/status", text + f"NoNewPrivs:\t{no_new}\n")


def test_capabilities_are_numbered_as_the_kernel_does() -> None:
    """First, last, and one of the middle."""
    assert (CAPABILITIES["chown"], CAPABILITIES["sys_admin"], CAPABILITIES["perfmon"]) == (0, 21, 38)
    assert CAPABILITIES["checkpoint_restore"] == 40


def test_privileges_are_the_status_lines() -> None:
    """Masks are hexadecimal; a kernel without NoNewPrivs has it off."""
    parsed = parse_privileges(b"CapPrm:\t1\nCapEff:\t0000004000000000\nCapBnd:\tff\n")
    assert parsed == Privileges(1 << 38, 1, 0xFF, False)


@pytest.mark.parametrize(
    ("capability", "held", "has"),
    [("perfmon", "perfmon", True), ("perfmon", "sys_admin", True), ("sys_ptrace", "sys_admin", False)],
)
def test_sys_admin_stands_in_where_the_kernel_takes_it(capability: str, held: str, has: bool) -> None:
    """CAP_SYS_ADMIN is taken for the capabilities that were split from it, and for no other."""
    assert Privileges(1 << CAPABILITIES[held], 0, 0, False).has(capability) is has


def test_own_privileges_are_read() -> None:
    """The mask is the one the kernel prints."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff"))
    assert read_privileges("/").effective == int(line.split()[1], 16)


@pytest.mark.parametrize(("magic", "effective"), [(0x02000001, True), (0x02000000, False), (0x03000001, True)])
def test_file_capabilities_are_parsed(magic: int, effective: bool) -> None:
    """Both halves of the mask, and the flag."""
    attribute = struct.pack("<IIIII", magic, 1 << 21, 0, 1 << 6, 0)
    assert parse_file_grant(attribute) == FileGrant(1 << 21 | 1 << 38, effective)


@pytest.mark.spec("SEC-4")
@pytest.mark.parametrize("attribute", [b"", b"\1\0\0\2", struct.pack("<IIIII", 0x01000000, 1, 0, 0, 0)])
def test_other_attributes_are_refused(attribute: bytes) -> None:
    """A short one and an unknown revision are errors."""
    with pytest.raises(ValueError, match="file capabilities"):
        parse_file_grant(attribute)


@pytest.mark.spec("PRB-6")
def test_what_is_missing_is_named_with_its_grant(sysroot: Sysroot) -> None:
    """The grant goes to one process and to no file."""
    write_status(sysroot)
    reason, remedy = explain("perfmon", str(sysroot), "/bin/true")
    assert reason == "CAP_PERFMON is missing"
    assert "--ambient-caps=+perfmon" in remedy
    assert "setcap" not in remedy


@pytest.mark.spec("PRB-6")
def test_outside_the_bounding_set_no_grant_is_advised(sysroot: Sysroot) -> None:
    """A container without the capability cannot be helped by setting it on a file."""
    write_status(sysroot, bounding=ALL & ~(1 << CAPABILITIES["bpf"]))
    reason, remedy = explain("bpf", str(sysroot), "/bin/true")
    assert "bounding set" in reason
    assert "container" in remedy
    assert "setpriv" not in remedy


@pytest.mark.spec("PRB-6")
def test_no_new_privileges_is_named(sysroot: Sysroot) -> None:
    """With it set, executing a file grants nothing."""
    write_status(sysroot, no_new=1)
    assert "no_new_privs is set" in explain("perfmon", str(sysroot), "/bin/true")[0]


@pytest.mark.spec("PRB-6")
@pytest.mark.parametrize(
    ("grant", "no_new", "nosuid", "expected", "remedy"),
    [
        (FileGrant(1 << 38, True), 1, False, "no_new_privs is set", "without no_new_privs"),
        (FileGrant(1 << 38, True), 0, True, "mounted nosuid", "without nosuid"),
        (FileGrant(1 << 38, False), 0, False, "not as effective", "'e' as well"),
        (FileGrant(1 << 38, True), 0, False, "not started by executing it", "start it again"),
    ],
)
def test_a_grant_on_the_file_is_said_to_be_withheld_and_why(
    sysroot: Sysroot,
    monkeypatch: pytest.MonkeyPatch,
    grant: FileGrant,
    no_new: int,
    nosuid: bool,
    expected: str,
    remedy: str,
) -> None:
    """What was granted is never advised again."""
    write_status(sysroot, no_new=no_new)
    monkeypatch.setattr(privileges, "find_file_grant", lambda path: grant)
    flags = os.ST_NOSUID if nosuid else 0
    monkeypatch.setattr(os, "statvfs", lambda path: type("Flags", (), {"f_flag": flags}))
    reason, advice = explain("perfmon", str(sysroot), "/bin/true")
    assert "carries CAP_PERFMON" in reason
    assert expected in reason
    assert remedy in advice
    assert "setpriv" not in advice


@pytest.mark.spec("PRB-6")
def test_a_file_that_carries_a_capability_is_read(tmp_path: Path) -> None:
    """The attribute that setcap writes is the one that is read."""
    path = tmp_path / "program"
    path.write_bytes(Path("/bin/true").read_bytes())
    attribute = struct.pack("<IIIII", 0x02000001, 0, 0, 1 << 6, 0)
    try:
        os.setxattr(path, "security.capability", attribute)
    except OSError as error:
        pytest.skip(f"{tmp_path}: {error.strerror}")
    grant = privileges.find_file_grant(str(path))
    assert grant is not None
    assert grant == FileGrant(1 << 38, True)
    assert privileges.find_file_grant("/proc/self/status") is None


def test_a_refusal_with_the_capability_in_effect_advises_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some kernels refuse root too: then there is nothing to grant."""
    monkeypatch.setattr(privileges, "read_privileges", lambda sysroot: Privileges(ALL, ALL, ALL, False))
    answer = refuse_permission("fentry", "bpf", OSError(errno.EPERM, "x"))
    assert answer.state.value == "restricted"
    assert answer.reason == "fentry is refused with EPERM although CAP_BPF is in effect"
    assert answer.remedy is None


def test_a_program_that_may_load_and_not_read_the_kernel_names_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """With CAP_BPF and no CAP_PERFMON the one that is missing is named, and the grant keeps the one that is there."""
    held = 1 << CAPABILITIES["bpf"]
    monkeypatch.setattr(privileges, "read_privileges", lambda sysroot: Privileges(held, held, ALL, False))
    monkeypatch.setattr(privileges, "find_file_grant", lambda path: None)
    answer = refuse_permission("raw tracepoint sched_switch", "bpf", OSError(errno.EPERM, "x"))
    assert answer.reason == "raw tracepoint sched_switch is refused with EPERM: CAP_PERFMON is missing"
    assert answer.remedy == describe_grant(["bpf", "perfmon"])


@pytest.mark.spec("PRB-6", "SEC-5")
def test_the_command_that_is_advised_grants_what_it_says() -> None:
    """Run as it is printed, it gives a process of the same user the capability and no other."""
    if os.geteuid() != 0:
        pytest.skip("only root can grant")
    if not read_privileges("/").has("perfmon"):
        pytest.skip("CAP_PERFMON is not to be had here")
    advised = describe_grant(["perfmon"]).partition("sudo ")[2].removesuffix("omn ...")
    command = (
        advised.replace("$(id -u)", "65534").replace("$(id -g)", "65534").replace("--init-groups", "--clear-groups")
    )
    code = "print(next(line for line in open('/proc/self/status') if line.startswith('CapEff')))"
    done = subprocess.run([*command.split(), sys.executable, "-c", code], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"setpriv: {done.stderr.strip()}")
    assert int(done.stdout.split()[1], 16) == 1 << CAPABILITIES["perfmon"]

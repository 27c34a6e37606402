"""Files that must be there and readable, and what cgroups and pressure files hold."""

from __future__ import annotations

import errno
import os
import pwd
import stat

from omn_core.api import AVAILABLE, Need, Probe, ProbeContext, State
from omn_kernel.cgroup import (
    UNIFIED,
    CgroupPlace,
    find_hierarchies,
    iter_nearest_folders,
    read_own_unified_folder,
)
from omn_kernel.mounts import read_mounts
from omn_kernel.polled import place, read_file

_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO, errno.EOPNOTSUPP})
_CLOSED = frozenset({errno.EACCES, errno.EPERM})


def probe_path(need: Need, context: ProbeContext) -> Probe:
    """Answer `path:/proc/slabinfo`: there and readable, there and closed to this user, or not there.

    A file is opened and a byte of it read, because some are opened by anyone and refuse the read.
    """
    return _probe_file(place(context.sysroot, need.argument), need.argument)


def probe_line(need: Need, context: ProbeContext) -> Probe:
    """Answer `line:/proc/stat:ctxt`: whether a file has a line of that name, before a space or a colon."""
    path, _, name = need.argument.partition(":")
    try:
        content = read_file(context.sysroot, path)
    except OSError as error:
        return _answer(error, place(context.sysroot, path), path)
    if any(line.replace(b":", b" ").split(b" ", 1)[0] == name.encode() for line in content.split(b"\n")):
        return AVAILABLE
    return Probe(State.MISSING, f"this kernel writes no {name} in {path}")


def _probe_file(path: str, spelling: str) -> Probe:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        return _answer(error, path, spelling)
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.read(descriptor, 1)
    except OSError as error:
        return _answer(error, path, spelling)
    finally:
        os.close(descriptor)
    return AVAILABLE


def _answer(error: OSError, path: str, spelling: str) -> Probe:
    if error.errno in _ABSENT:
        return Probe(State.MISSING, f"this kernel has no {spelling}")
    if error.errno in _CLOSED:
        return Probe(State.RESTRICTED, f"{spelling} is closed to this user{_describe_mode(path)}", "run omn as root")
    return Probe(State.UNKNOWN, f"{spelling} answers {error.strerror}")


def _describe_mode(path: str) -> str:
    try:
        found = os.stat(path)
    except OSError:
        return ", and so is the way to it"
    try:
        owner = pwd.getpwuid(found.st_uid).pw_name
    except KeyError:
        owner = str(found.st_uid)
    return f" (mode {stat.S_IMODE(found.st_mode):04o}, owned by {owner})"


def probe_psi(_need: Need, context: ProbeContext) -> Probe:
    """Answer whether the kernel keeps pressure accounts: built with them, and not switched off when it started."""
    try:
        read_file(context.sysroot, "/proc/pressure/memory")
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP:
            return Probe(State.MISSING, "pressure accounts are switched off (psi=0)", "start the kernel with psi=1")
        if error.errno in _ABSENT:
            return Probe(State.MISSING, "this kernel keeps no pressure accounts (no /proc/pressure)")
        return _answer(error, place(context.sysroot, "/proc/pressure/memory"), "/proc/pressure/memory")
    return AVAILABLE


def probe_cgroup1(need: Need, context: ProbeContext) -> Probe:
    """Answer `cgroup1:memory`: whether a v1 hierarchy carries that controller, and has the target's cgroup."""
    try:
        hierarchies = find_hierarchies(read_mounts(context.sysroot))
    except OSError as error:
        return Probe(State.UNKNOWN, f"what is mounted cannot be read: {error.strerror}")
    if need.argument == UNIFIED or need.argument not in hierarchies:
        return Probe(State.MISSING, f"no cgroup v1 hierarchy carries the {need.argument} controller here")
    if isinstance(context.place, CgroupPlace) and need.argument not in context.place.legacy:
        return _answer_elsewhere(context.place)
    return AVAILABLE


def _answer_elsewhere(found: CgroupPlace) -> Probe:
    return Probe(State.MISSING, f"cgroup {found.path!r} stands in {', '.join(found.hierarchies)} alone")


def probe_cgroup2(need: Need, context: ProbeContext) -> Probe:
    """Answer `cgroup2:memory.stat:pswpin`: whether this kernel writes that key in that file.

    It is read of the target's cgroup where there is one, else of the nearest that has the file: this process's own,
    those above it, then those below the root. A file of one number, or one whose lines begin with a device (io.stat),
    is asked with the key `value`.
    """
    name, _, key = need.argument.partition(":")
    try:
        folder = read_own_unified_folder(context.sysroot)
        if folder is None:
            return Probe(State.MISSING, "cgroup2 is not mounted here")
        if isinstance(context.place, CgroupPlace):
            return _probe_of_cgroup(context.place, name, key)
        top = place(context.sysroot, find_hierarchies(read_mounts(context.sysroot))[UNIFIED].point)
        path = next((path for at in iter_nearest_folders(folder, top) if os.path.exists(path := f"{at}/{name}")), None)
        if path is None:
            return Probe(State.MISSING, f"no cgroup2 cgroup here has {name} (its controller may be on a v1 hierarchy)")
        return _probe_key(read_file("/", path), name, key)
    except OSError as error:
        if error.errno in _CLOSED:
            return Probe(State.RESTRICTED, f"{name} is closed to this user", "run omn as root")
        if error.errno == errno.EOPNOTSUPP:
            return Probe(State.MISSING, f"{name} is switched off on this kernel")
        return Probe(State.UNKNOWN, f"{name} answers {error.strerror}")


def _probe_of_cgroup(found: CgroupPlace, name: str, key: str) -> Probe:
    if found.unified is None:
        return _answer_elsewhere(found)
    path = f"{found.unified}/{name}"
    if not os.path.exists(path):
        return Probe(State.MISSING, f"cgroup {found.path!r} has no {name}: no controller that keeps it is on there")
    return _probe_key(read_file("/", path), name, key)


def _probe_key(content: bytes, name: str, key: str) -> Probe:
    if key == "value" or any(line.split(b" ", 1)[0] == key.encode() for line in content.split(b"\n")):
        return AVAILABLE
    controller = name.partition(".")[0]
    return Probe(
        State.MISSING, f"no {key} is in {name}: the kernel writes none, or not while {controller} is off there"
    )

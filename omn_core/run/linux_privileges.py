"""Capabilities that omn was lent and a launched program is to be without. See capabilities(7)."""

from __future__ import annotations

import ctypes
import os
import re

import attrs

_VERSION_3 = 0x20080522  # _LINUX_CAPABILITY_VERSION_3 of <linux/capability.h>: two words of 32 capabilities each
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_LOWER = 47, 3

_libc = ctypes.CDLL(None, use_errno=True)


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


@attrs.frozen(repr=False)
class Inherited:
    """The capabilities that an executed program takes over from a process, as bit masks."""

    ambient: int
    inheritable: int


def find_inherited(pid: int | str) -> Inherited:
    """Find what a process hands on (/proc/<pid>/status): nothing of one that is gone or hidden."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            status = file.read()
    except OSError:
        return Inherited(0, 0)
    found = [re.search(rb"^%s:\s*([0-9a-f]+)$" % name, status, re.MULTILINE) for name in (b"CapAmb", b"CapInh")]
    return Inherited(*(0 if one is None else int(one[1], 16) for one in found))


def find_lent() -> Inherited:
    """Find what this process hands on and whoever started it does not: what it was lent for itself alone."""
    own, starters = find_inherited("self"), find_inherited(os.getppid())
    return Inherited(own.ambient & ~starters.ambient, own.inheritable & ~starters.inheritable)


def give_up(lent: Inherited) -> None:
    """Take capabilities out of what this process hands on. Raises OSError where the kernel refuses."""
    for number in range(lent.ambient.bit_length()):
        if lent.ambient >> number & 1:
            _check(_libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_LOWER, number, 0, 0))
    if not lent.inheritable:
        return
    header, sets = _Header(_VERSION_3, 0), (_Sets * 2)()
    _check(_libc.capget(ctypes.byref(header), sets))
    for word, one in enumerate(sets):
        one.inheritable &= ~(lent.inheritable >> 32 * word) & 0xFFFFFFFF
    _check(_libc.capset(ctypes.byref(header), sets))


def _check(returned: int) -> None:
    if returned < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))

"""The limit of locked memory, which kernels before 5.11 charge maps and programs to, raised while one is made."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Callable, Iterator

from omn_kernel.bpf.refusals import find_memory_limit

_UNLIMITED = resource.RLIM_INFINITY


def make_charged(make: Callable[[], int]) -> int:
    """Make a map or a program, and where the limit of locked memory refuses it, again with the limit raised.

    Returns the descriptor. The limit is put back at once, so that a launched program inherits the user's own. Raises
    OSError as bpf(2) does.
    """
    try:
        return make()
    except OSError as error:
        if find_memory_limit(error) is None:
            raise
    with _raised():
        return make()


@contextlib.contextmanager
def _raised() -> Iterator[None]:
    """Lift the limit as far as this process may: altogether with CAP_SYS_RESOURCE, to the hard limit without."""
    before = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    try:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (_UNLIMITED, _UNLIMITED))
    except (ValueError, PermissionError):  # how Python says EPERM of this call
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (before[1], before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, before)

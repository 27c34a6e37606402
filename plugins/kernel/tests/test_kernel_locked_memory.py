"""The limit of locked memory while maps are made: lifted where it refuses one, and put back."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator

import pytest
from omn_kernel.bpf import refusals
from omn_kernel.bpf.locked_memory import make_charged

MADE = 7
USUAL = 64 << 10


@pytest.fixture(autouse=True)
def _limited(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the usual limit, on a kernel that charges to it."""
    monkeypatch.setattr(refusals, "_UNCHARGED", (1 << 20, 0, 0))
    before = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if before[1] != resource.RLIM_INFINITY and before[1] < 4 * USUAL:
        pytest.skip("the hard limit of locked memory leaves nothing to lift")
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (USUAL, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_MEMLOCK, before)


def read_limit() -> int:
    return resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]


@pytest.mark.spec("KRN-9", "KRN-4")
def test_what_the_limit_refuses_is_made_with_it_lifted_and_a_child_inherits_it_as_it_was() -> None:
    """Once refused, then made under more; afterwards it is what it was."""
    limits: list[int] = []

    def make() -> int:
        limits.append(read_limit())
        if len(limits) == 1:
            raise PermissionError(1, "refused")
        return MADE

    assert make_charged(make) == MADE
    assert limits[0] == USUAL
    assert limits[1] == resource.RLIM_INFINITY or limits[1] > USUAL
    assert read_limit() == USUAL


@pytest.mark.spec("KRN-9")
def test_what_is_refused_for_another_reason_is_not_tried_again() -> None:
    """A verifier's rejection, and a refusal on a kernel that charges nothing."""
    calls: list[int] = []

    def reject() -> int:
        calls.append(read_limit())
        raise OSError(22, os.strerror(22))

    with pytest.raises(OSError, match="Invalid argument"):
        make_charged(reject)
    assert calls == [USUAL]


@pytest.mark.spec("KRN-9")
def test_a_refusal_under_the_lifted_limit_puts_it_back() -> None:
    """The capability was missing, and not the memory."""

    def refuse() -> int:
        raise PermissionError(1, os.strerror(1))

    with pytest.raises(PermissionError):
        make_charged(refuse)
    assert read_limit() == USUAL

"""How many files a run may keep open, and the program that it starts."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from run_subjects import make_registry, make_session, resolve

from omn_core.api import Batch, BoundTarget, CollectorBase, ResolvedRequest, RunContext, Target
from omn_core.run.runner import RunOptions, run

FEW, MANY = 40, 200


class Holding(CollectorBase):
    """Holds more files than the soft limit leaves, from before the program is there."""

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        super().prepare(resolved, context)
        self.held = [os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC) for _ in range(MANY)]

    def attach(self, target: BoundTarget) -> None:
        """There is nothing to attach."""

    def sample(self, now_ns: int) -> Batch:
        return Batch.of_reading((now_ns, now_ns), self.context.names, {}, {"value": [len(self.held)]})

    def stop(self) -> Batch:
        while self.held:
            os.close(self.held.pop())
        return Batch.empty()


@pytest.fixture
def few_files() -> Iterator[int]:
    """A soft limit that is nearly reached."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < len(os.listdir("/proc/self/fd")) + FEW + MANY:
        pytest.skip("the hard limit of open files leaves no room for a soft one below it")
    limit = max(map(int, os.listdir("/proc/self/fd"))) + FEW
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    yield limit
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.spec("RUN-5")
def test_a_run_has_the_files_that_it_may_have_and_its_program_those_it_would_have(
    few_files: int, tmp_path: Path
) -> None:
    """The program's limit is the one that omn was started with, and so is omn's own after the run."""
    out = tmp_path / "out"
    target = Target("launch", ("sh", "-c", "ulimit -Sn; ulimit -Hn"))
    session = make_session(resolve("Holding", target, module=__name__), program_stdout=str(out))
    (result,) = run(session, make_registry(), RunOptions()).results
    assert result.failure is None
    assert result.events_seen >= 1
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert out.read_text().split() == [str(few_files), "unlimited" if hard == resource.RLIM_INFINITY else str(hard)]
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == few_files

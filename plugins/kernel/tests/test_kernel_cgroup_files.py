"""Files of a cgroup: which must be there, what a removed cgroup answers, and where a target's cgroup stands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from omn_kernel.cgroup import UNIFIED, CgroupPlace
from omn_kernel.cgroup_files import CgroupFiles, get_place

from omn_core.api import BoundTarget, MachineRefused, Target, TargetGone
from omn_core.testing.sysroot import Sysroot


@pytest.fixture
def cgroup(sysroot: Sysroot) -> CgroupPlace:
    """A cgroup on both versions, with one file on each."""
    sysroot.write("/unified/job/cpu.stat", "usage_usec 1\n").write("/cpuacct/job/cpuacct.usage", "5\n")
    return CgroupPlace(
        "/job", str(sysroot.path("/unified/job")), frozenset(), {"cpuacct": str(sysroot.path("/cpuacct/job"))}
    )


def test_each_hierarchy_has_its_own_files(cgroup: CgroupPlace) -> None:
    """A file that this kernel lacks is absent from the reading; the account itself is there."""
    files = CgroupFiles(cgroup, UNIFIED, ("cpu.stat", "cpu.weight"))
    assert files.read() == {"cpu.stat": b"usage_usec 1\n"}
    files.close()
    assert CgroupFiles(cgroup, "cpuacct", ("cpuacct.usage",)).read() == {"cpuacct.usage": b"5\n"}


@pytest.mark.parametrize(("hierarchy", "name"), [(UNIFIED, "memory.current"), ("memory", "memory.usage_in_bytes")])
def test_an_account_that_is_not_there_is_refused_with_what_that_means(
    cgroup: CgroupPlace, hierarchy: str, name: str
) -> None:
    """A file, or a whole hierarchy, that the cgroup does not have is no account of zero."""
    with pytest.raises(MachineRefused, match=f"^cgroup '/job' has no {name}: it has no such account in"):
        CgroupFiles(cgroup, hierarchy, (name,))
    with pytest.raises(MachineRefused, match="nobody counts it"):
        CgroupFiles(cgroup, hierarchy, (name,), without="nobody counts it")


def test_a_refusal_names_the_hierarchies_that_have_the_cgroup(cgroup: CgroupPlace) -> None:
    """What stands in one hierarchy alone is served by the backend that reads there, and to be told so mends it."""
    legacy = attrs.evolve(cgroup, unified=None)
    with pytest.raises(MachineRefused) as refused:
        CgroupFiles(legacy, UNIFIED, ("cpu.stat",))
    assert refused.value.remedy is not None
    assert f"it stands in {', '.join(legacy.hierarchies)} alone" in refused.value.remedy


@pytest.mark.spec("RUN-7")
def test_a_cgroup_of_this_machine_that_is_removed_is_gone(make_cgroup: Callable[[str], Path]) -> None:
    """The kernel's own answer for a file of a removed cgroup is the end of the target."""
    folder = make_cgroup("cpuacct") / "inner"
    folder.mkdir()
    files = CgroupFiles(CgroupPlace("/inner", legacy={"cpuacct": str(folder)}), "cpuacct", ("cpuacct.usage",))
    assert int(files.read()["cpuacct.usage"]) == 0
    folder.rmdir()
    with pytest.raises(TargetGone):
        files.read()
    files.close()


def test_a_target_without_a_cgroup_is_refused() -> None:
    """Nothing is read of a target that no binder found a place for."""
    with pytest.raises(MachineRefused, match="no cgroup was found for --cgroup /job"):
        get_place(BoundTarget(Target("cgroup", "/job"), "cgroup"))

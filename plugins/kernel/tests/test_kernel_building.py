"""Native modules that were built of other sources than those beside them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import omn_kernel.native
import pytest
from omn_kernel.native import _bpf, _calls, _injected, _perf, _unwind
from omn_kernel.native.building import refuse_stale

from omn_core.api import NotCollected

HERE = Path(omn_kernel.native.__path__[0])
SCRIPT = HERE.parents[1] / "build_native.py"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the checkout's sources, with files that stand for the modules built before them."""
    if not SCRIPT.exists():
        pytest.skip("omn-kernel is installed here without what builds it")
    folder = tmp_path / "omn_kernel" / "native"
    folder.mkdir(parents=True)
    shutil.copy(SCRIPT, tmp_path)
    for path in HERE.iterdir():
        if path.suffix in (".c", ".h", ".pyi") and not (path.name.startswith("_") and path.suffix == ".c"):
            shutil.copyfile(path, folder / path.name)
    for stub in list(folder.glob("*.pyi")):
        module = stub.with_suffix(".abi3.so")
        module.touch()
        os.utime(module, ns=(0, 0))
    return folder


def test_each_module_says_what_it_was_built_of() -> None:
    """All of the same sources."""
    assert len({module.lib.OMN_SOURCES for module in (_bpf, _calls, _injected, _perf, _unwind)}) == 1


@pytest.mark.spec("PRB-1")
def test_modules_of_other_sources_are_refused_with_what_builds_them(checkout: Path) -> None:
    """A source that is newer and the same is no other; what was changed and what is missing are named."""
    project = checkout.parents[1]
    refuse_stale(str(checkout), str(project))
    (checkout / "_perf.abi3.so").unlink()
    with pytest.raises(NotCollected, match=r"of omn-kernel \(_perf\) were built of other sources") as missing:
        refuse_stale(str(checkout), str(project))
    assert missing.value.exit_code == 3
    assert missing.value.remedy == f"build them anew: pip install -e {project}"
    with (checkout / "heap.h").open("a") as file:
        file.write("\n")
    with pytest.raises(NotCollected, match=r"\(_bpf, _calls, _injected, _perf, _unwind\)"):
        refuse_stale(str(checkout), str(project))
    (project / "build_native.py").unlink()
    refuse_stale(str(checkout), str(project))

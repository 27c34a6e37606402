"""A stand-in for NVML, built from C, whose answers a test writes and changes while a run goes on."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omn_core.api import BoundTarget, ProbeContext, Target
from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry
from omn_core.testing.harness import Driver, resolve_onto

SOURCE = Path(__file__).with_name("nvml_stub.c")
MIB = 1 << 20
FIRST = {"name": "Stub One", "uuid": "GPU-0001", "pci": "00000000:65:00.0"}
SECOND = {"name": "Stub Two", "uuid": "GPU-0002", "pci": "00000000:B3:00.0"}


class Stub:
    """The stand-in: where it lies, and what it answers. A name that is set to None is answered no more."""

    def __init__(self, library: Path, state: Path) -> None:
        self.library = library
        self.state = state
        self._answers: dict[str, Any] = {"count": 1, **{f"0.{name}": value for name, value in FIRST.items()}}
        self.set()

    def add_second(self) -> None:
        """Give the machine another device."""
        self.set({"count": 2, **{f"1.{name}": value for name, value in SECOND.items()}})

    def set(self, answers: dict[str, Any] | None = None, **of_first: Any) -> None:
        """Change answers, by their whole names or, as arguments, those of the first device; in one step for readers."""
        self._answers |= (answers or {}) | {f"0.{name.replace('__', '.')}": value for name, value in of_first.items()}
        lines = [f"{name} {value}\n" for name, value in self._answers.items() if value is not None]
        beside = self.state.with_suffix(".new")
        beside.write_text("".join(lines))
        os.replace(beside, self.state)

    @property
    def environment(self) -> dict[str, str]:
        """The variables under which another process finds the stand-in."""
        return {"LD_LIBRARY_PATH": str(self.library.parent), "OMN_STUB_NVML": str(self.state)}


@pytest.fixture(scope="session")
def stub_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the library once."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is not installed here")
    library = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    options = ["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", f"-Wl,-soname,{library.name}"]
    subprocess.run([compiler, *options, "-o", library, SOURCE], check=True)
    return library


@pytest.fixture
def stub(stub_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stub:
    """Have the stand-in in this process: once loaded by its path, it is what its name means."""
    made = Stub(stub_library, tmp_path / "nvml-answers")
    monkeypatch.setenv("OMN_STUB_NVML", str(made.state))
    ctypes.CDLL(str(stub_library))
    return made


@pytest.fixture
def bind(registry: Registry) -> Callable[..., BoundTarget]:
    """Bind `--gpu NAME` as the runner does."""
    binder = registry.load(registry.targets["gpu"].binder)

    def find(name: str, sysroot: object = "/") -> BoundTarget:
        bound: BoundTarget = binder(Target("gpu", name), ProbeContext("gpu", str(sysroot)))
        return bound

    return find


@pytest.fixture
def drive(registry: Registry, catalog: Catalog) -> Callable[..., Driver]:
    """Make the driver of a source on a target."""

    def make(
        source: str,
        target: BoundTarget,
        *keys: str,
        backend: str = "vendor:nvml",
        mode: str = "poll",
        sysroot: object = "/",
        **options: Any,
    ) -> Driver:
        resolved = resolve_onto(catalog.entries[source], backend, target.target, mode=mode, keys=keys)
        factory = registry.load(registry.collectors[source, backend].factory)
        return Driver(factory(), resolved, target, sysroot=str(sysroot), **options)

    return make

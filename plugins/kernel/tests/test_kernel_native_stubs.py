"""What the types say of the native modules is what these have."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import omn_kernel.native
import pytest

STUBS = sorted(Path(omn_kernel.native.__path__[0]).glob("*.pyi"))


def list_names(stub: Path) -> list[str]:
    """Return the functions and the constants that a stub says of its module's `lib`."""
    (functions,) = (node for node in ast.parse(stub.read_text()).body if getattr(node, "name", "") == "_Functions")
    assert isinstance(functions, ast.ClassDef)
    constants = [ast.unparse(node.target) for node in functions.body if isinstance(node, ast.AnnAssign)]
    called = [node.name for node in functions.body if isinstance(node, ast.FunctionDef)]
    return [name for name in (*constants, *called) if not name.startswith("__")]


@pytest.mark.parametrize("stub", STUBS, ids=lambda stub: stub.stem)
def test_a_native_module_has_what_its_stub_says(stub: Path) -> None:
    """Each name that the types know is one that the headers declare or that the kernel's are asked for."""
    lib = importlib.import_module(f"omn_kernel.native.{stub.stem}").lib
    names = list_names(stub)
    assert names
    assert [name for name in names if not hasattr(lib, name)] == []

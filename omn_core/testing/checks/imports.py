"""What importing a plugin costs, and what its code imports."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from omn_core.plugins import CORE
from omn_core.testing.checks.subject import Subject

BUDGET_NS = 2_000_000
"""What importing `plugin.py` may cost, the core imported before."""

_TRIES = 7
"""Imports in processes of their own, at most; the fastest counts, for everything else on the machine only adds."""

_PROGRAM = """
import json, sys, time
import omn_core.api
import omn_core.hookspecs
known = set(sys.modules)
opened = time.perf_counter_ns()
__import__(sys.argv[1])
spent = time.perf_counter_ns() - opened
print(json.dumps({"spent_ns": spent, "modules": sorted(set(sys.modules) - known)}))
"""


def check_cost(subject: Subject) -> Iterator[str]:
    """Importing the plugin module, in a fresh process, stays under its budget and loads nothing that rows name."""
    if subject.record.module is None:
        return
    name = subject.record.module.__name__
    best: dict[str, Any] | None = None
    for _ in range(_TRIES):
        found = _measure(name)
        if isinstance(found, str):
            yield found
            return
        best = found if best is None else min(best, found, key=lambda one: int(one["spent_ns"]))
        if best["spent_ns"] <= BUDGET_NS:
            break
    assert best is not None
    if best["spent_ns"] > BUDGET_NS:
        yield f"importing {name} took {best['spent_ns'] / 1e6:.1f} ms at best; its budget is {BUDGET_NS / 1e6:.0f} ms"
    if "numpy" in best["modules"]:
        yield f"importing {name} imports numpy"
    named = {reference.partition(":")[0] for _, reference in subject.iter_references()}
    for module in sorted(named & set(best["modules"]) - {name}):
        yield f"importing {name} imports {module}, which its rows only name"


def _measure(name: str) -> dict[str, Any] | str:
    """Import a module in a process of its own; return its cost and what came with it, or why that failed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed plugin is compiled once, not at every start
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, name], capture_output=True, env=environment, timeout=60, check=False
    )
    if done.returncode != 0:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        return f"importing {name} in a fresh process fails: {' '.join(last)}"
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def check_public_names(subject: Subject) -> Iterator[str]:
    """No module of the plugin's package imports a module of the core other than `omn_core.api`; the core's own may."""
    folder = subject.folder
    if folder is None or subject.record.name == CORE:
        return
    for path in sorted(folder.rglob("*.py")):
        for line, module in _iter_core_imports(path):
            yield f"{path.relative_to(folder.parent)}:{line} imports {module}; only omn_core.api is public"


def _iter_core_imports(path: Path) -> Iterator[tuple[int, str]]:
    try:
        tree = ast.parse(path.read_bytes())
    except SyntaxError as error:
        yield error.lineno or 0, f"nothing, for it does not parse ({error.msg})"
        return
    for node in ast.walk(tree):
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            modules = inside if node.module == "omn_core" else [node.module]
        for module in modules:
            if module.partition(".")[0] == "omn_core" and module != "omn_core.api":
                yield getattr(node, "lineno", 0), module

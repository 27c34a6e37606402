"""The house's rules on sizes, names and boundaries, over every file the project ships."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LONGEST_MODULE = 500
LONGEST_FUNCTION = 60
BANNED_NAMES = {"utils.py", "helpers.py", "common.py", "manager.py", "misc.py"}
_BROAD = {"Exception", "BaseException", "PLUGIN_FAULTS"}
BROAD_EXCEPTS = {
    "omn_core/catalog/load.py": 1,  # a plugin's catalog package, imported in its guard
    "omn_core/cli/answer.py": 1,  # a plugin's encoder, called in its guard
    "omn_core/cli/app.py": 1,  # a plugin's command, imported in its guard
    "omn_core/cli/entry.py": 1,  # the command line's main: what nobody foresaw ends with the fixed last line too
    "omn_core/emit/answer.py": 2,  # a plugin's emit, called in its guard: imported, asked
    "omn_core/format/text_numbers.py": 1,  # a plugin's emit, asked to render
    "omn_core/plugins.py": 2,  # a plugin's hook, called in its guard
    "omn_core/resolve/probes.py": 1,  # a plugin's probe, called in its guard
    "omn_core/resolve/targets.py": 1,  # a plugin's binder, called in its guard
    "omn_core/resolve/walks.py": 1,  # a plugin's walk of stacks, asked in its guard
    "omn_core/run/announce.py": 1,  # a plugin's observer, called in its guard
    "omn_core/run/alongside.py": 1,  # the main of a process of its own
    "omn_core/run/measurement.py": 4,  # a plugin's collector, called in its guards: made, begun, sampled, asked
    "omn_core/testing/checks/guard.py": 1,  # the conformance kit's calls into a plugin
    "omn_core/structure.py": 2,  # cattrs' own way: errors are gathered, and raised again as one with its place
}
"""Where `except Exception` may stand, how often, and why."""


def iter_sources() -> Iterator[Path]:
    """Yield every module that ships, and the example family's."""
    for folder in ("omn_core", "plugins", "examples"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not {"tests", "build"} & set(path.relative_to(ROOT).parts):
                yield path


SOURCES = list(iter_sources())
IDS = [str(path.relative_to(ROOT)) for path in SOURCES]


def count_lines(node: ast.AST) -> int:
    """Return a function's lines, its docstring apart."""
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    body = node.body
    docstring = body[0] if ast.get_docstring(node, clean=False) is not None else None
    skipped = 0 if docstring is None else (docstring.end_lineno or 0) - docstring.lineno + 1
    return (node.end_lineno or 0) - node.lineno + 1 - skipped


@pytest.mark.parametrize("path", SOURCES, ids=IDS)
def test_a_module_and_its_functions_keep_to_size(path: Path) -> None:
    """No module is past 500 lines, no function past 60 without its docstring."""
    text = path.read_text()
    assert len(text.splitlines()) <= LONGEST_MODULE
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert count_lines(node) <= LONGEST_FUNCTION, node.name


@pytest.mark.parametrize("path", SOURCES, ids=IDS)
def test_a_module_is_named_for_what_it_holds(path: Path) -> None:
    """No drawer for everything."""
    assert path.name not in BANNED_NAMES


def _iter_names(node: ast.AST) -> Iterator[ast.Name]:
    yield from (part for part in ast.walk(node) if isinstance(part, ast.Name))


@pytest.mark.parametrize("path", SOURCES, ids=IDS)
def test_a_broad_except_stands_only_where_it_is_listed(path: Path) -> None:
    """Catching everything is for a plugin's call in its guard, and each such place is on the list above."""
    found = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or _BROAD & {name.id for name in _iter_names(node.type)})
    ]
    assert len(found) == BROAD_EXCEPTS.get(str(path.relative_to(ROOT)), 0), [node.lineno for node in found]


@pytest.mark.parametrize(
    "folder", sorted((ROOT / "plugins").glob("*/omn_*/plugin.py")), ids=lambda path: path.parts[-3]
)
def test_a_plugin_says_where_everything_of_it_is(folder: Path) -> None:
    """Its README names each module or the package around it, and no module that there is not."""
    package = folder.parent
    parts = re.findall(r"`(?:(omn_\w+)\.)?((?:programs\b)?[\w.]*)`", (package.parent / "README.md").read_text())
    named = {f"{owner or package.name}.{name}" for owner, name in parts if owner or name.startswith("programs")}
    modules = {
        ".".join(path.relative_to(package.parent).with_suffix("").parts)
        for path in package.rglob("*.py")
        if path.name not in ("__init__.py", "plugin.py")
    }
    around = {module.rsplit(".", depth)[0] for module in modules for depth in range(module.count("."))}
    assert {module for module in modules if not any(f"{module}.".startswith(f"{name}.") for name in named)} == set()
    assert {name for name in named if name.startswith(f"{package.name}.")} - around == set()


@pytest.mark.parametrize("path", SOURCES, ids=IDS)
def test_nothing_is_left_to_do(path: Path) -> None:
    """No comment promises work: what is not built is declared in the catalog with its reason."""
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.COMMENT:
                assert not {"TODO", "FIXME", "XXX"} & set(token.string.replace(":", " ").split()), token.start


@pytest.mark.spec("SEC-1", "KRN-1")
@pytest.mark.parametrize("path", SOURCES, ids=IDS)
def test_no_tool_is_run_and_nothing_is_traced_by_force(path: Path) -> None:
    """No shipped module starts another program (the launcher executes the one a person named) or calls ptrace.

    A container runtime is asked which process a container is: it names, and measures nothing.
    """
    allowed = {"omn_core/testing", "plugins/kernel/omn_kernel/container_runtimes.py"}
    if any(str(path.relative_to(ROOT)).startswith(prefix) for prefix in allowed):
        return
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        assert "subprocess" not in names, node.lineno
        if isinstance(node, ast.Attribute):
            assert node.attr not in ("system", "popen", "ptrace", "userfaultfd") or not (
                isinstance(node.value, ast.Name) and node.value.id == "os"
            ), node.lineno


WRITERS = {
    "omn_core/cli/streams.py",  # /dev/null, in place of a standard stream that is closed or failed
    "omn_core/cache.py",  # the user's cache
    "omn_core/run/alongside.py",  # memory that it shares with its caller alone
    "omn_core/run/launcher.py",  # the program's own output, in the files a person named
    "omn_core/store.py",  # the run's folder, which a person named
    "plugins/agent/omn_agent/hook/slow.py",  # an event, in the spool of the recorder that the hook was given
    "plugins/agent/omn_agent/files.py",  # a recording, in the file a person named; what a harness is pointed at
    "plugins/agent/omn_agent/recorder/journal.py",  # the journal, in the user's cache
}
"""The modules that write files."""


def _writes(call: ast.Call) -> bool:
    """Whether a call opens a file for writing, or writes one by its path."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name in ("write_text", "write_bytes", "mkstemp", "setxattr", "truncate"):
        return True
    modes = [argument.value for argument in call.args[1:2] if isinstance(argument, ast.Constant)]
    modes += [keyword.value.value for keyword in call.keywords if keyword.arg == "mode" and _is_text(keyword.value)]
    flags = {node.attr for argument in call.args[1:] for node in ast.walk(argument) if isinstance(node, ast.Attribute)}
    opens_to_write = any(isinstance(mode, str) and set(mode) & set("wax+") for mode in modes)
    return name == "open" and (opens_to_write or bool(flags & {"O_WRONLY", "O_RDWR", "O_CREAT"}))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


@pytest.mark.spec("SEC-1")
@pytest.mark.parametrize("path", SOURCES, ids=IDS)
def test_no_knob_of_the_kernel_is_written(path: Path) -> None:
    """Files are written by the modules that are listed, and by those published for tests; every other one reads."""
    name = str(path.relative_to(ROOT))
    if name.startswith("omn_core/testing"):
        return
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    assert any(map(_writes, calls)) is (name in WRITERS), [node.lineno for node in calls if _writes(node)]

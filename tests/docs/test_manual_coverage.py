"""The manual says everything that a stranger meets: hooks, options, variables, fields, sentences."""

from __future__ import annotations

import ast
import inspect
import re
import stat
from collections.abc import Iterator, Mapping
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import click
import pluggy
import pytest
from manual import DOCS, PAGES, ROOT, iter_blocks, read_page
from omn_kernel.privileges import describe_grant, find_file_grant

from omn_core import hookspecs
from omn_core.cli.entry import FAILED, FAILED_AFTER, REFUSED
from omn_core.model.catalog import BANDS
from omn_core.model.request import MODES
from omn_core.model.resolved import LinkState
from omn_core.plugins import Registry

READERS = {"get", "getenv", "pop"}
ENVIRONMENT = re.compile(r"\benvironb?\b|^environment$")
"""The process's environment, or a copy of it under its one other name here."""


def iter_sources() -> Iterator[Path]:
    """Yield every module of the core, the plugins and the example, their tests apart."""
    for folder in ("omn_core", "plugins", "examples"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not {"tests", "build"} & set(path.relative_to(ROOT).parts):
                yield path


def iter_variables(tree: ast.Module) -> Iterator[str]:
    """Yield the environment variables that a module reads or takes away by name."""
    for node in ast.walk(tree):
        names: list[ast.expr] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in READERS:
            if ENVIRONMENT.search(ast.unparse(node.func.value)) or ast.unparse(node.func) == "os.getenv":
                names = node.args[:1]
        elif isinstance(node, ast.Subscript) and ENVIRONMENT.search(ast.unparse(node.value)):
            names = [node.slice]
        elif isinstance(node, ast.keyword) and node.arg == "envvar":
            names = [node.value]
        for name in names:
            if isinstance(name, ast.Constant):
                yield name.value.decode() if isinstance(name.value, bytes) else name.value


def get_command(registry: Registry, name: str) -> click.Command:
    """Return a subcommand."""
    command = registry.load(registry.commands[name].reference)
    assert isinstance(command, click.Command)
    return command


def test_every_hook_has_its_section(registry: Registry) -> None:
    """Each hook of the contracts is a heading of plugins.md with something below it, in the contracts' order."""
    manager = pluggy.PluginManager("omn")
    hooks = [name for name, _ in inspect.getmembers(hookspecs) if manager.parse_hookspec_opts(hookspecs, name)]
    assert len(hooks) == 10
    headings = re.findall(r"^### (omn_\w+)\n\n(\w)", read_page("plugins.md"), re.MULTILINE)
    assert sorted(name for name, _ in headings) == sorted(hooks)


def test_every_requirement_class_is_explained(registry: Registry) -> None:
    """What omn-kernel and the families answer stands in plugins.md as catalogs write it."""
    page = read_page("plugins.md")
    for kind in registry.requirements:
        if not kind.startswith("redis"):
            assert re.search(rf"`{re.escape(kind)}[:`A-Z]", page), kind


def test_every_variable_that_is_read_is_documented_and_no_other() -> None:
    """Each environment variable in the code has its row, and each row's variable is in the code."""
    read = {name for path in iter_sources() for name in iter_variables(ast.parse(path.read_text()))}
    read.add("OMN_WORKLOAD_PIPES")  # read by the programs that omn_core.testing writes, under a constant's name
    rows = set(re.findall(r"^\| `([A-Z_]+)` \|", read_page("environment.md"), re.MULTILINE))
    assert rows == read


def test_every_option_is_in_the_manual(registry: Registry) -> None:
    """Each option of `omn trace` and each subcommand stands in asking.md, and none that is not there."""
    page = read_page("asking.md")
    options = {option for parameter in get_command(registry, "trace").params for option in parameter.opts}
    named = set(re.findall(r"`(?:-\w`, `)?(--[a-z-]+)", page))
    flags = {option for option in options if option.startswith("--")}
    assert flags <= named
    assert named <= flags | {"--usable"}
    for command in registry.commands:
        assert f"omn {command}" in page or command == "trace"


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("asking.md", MODES),
        ("trust.md", (*BANDS, "high", "medium", "low", "launch", "compute", "memory", "idle")),
        ("results.md", tuple(state.value for state in LinkState)),
    ],
)
def test_every_word_of_a_closed_list_is_explained(page: str, words: tuple[str, ...]) -> None:
    """Modes, bands, determinism and the states of a chain each have their row or their place."""
    assert {word for word in words if f"`{word}`" not in read_page(page)} == set()


def test_every_emit_and_format_is_explained(registry: Registry) -> None:
    """The core's emits stand in asking.md with what they answer, and with the formats in results.md."""
    for record in registry.records:
        for row in record.rows.get("emits", []):
            if record.distribution == "omn":
                assert re.search(rf"^\| `{row.name}` \|", read_page("asking.md"), re.MULTILINE), row.name
                assert f"`{row.name}`" in read_page("results.md")
        for row in record.rows.get("formats", []):
            assert re.search(rf"^\| `{row.name}` \|", read_page("results.md"), re.MULTILINE), row.name


def iter_names(value: Any, within: str = "") -> Iterator[str]:
    """Yield every field name of a document, those apart that a program, a plugin or a person chose."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            if within not in ("plugins", "key", "attrs", "fields", "emits"):
                yield name
            yield from iter_names(part, "" if within == "emits" else name)
    elif isinstance(value, list):
        for part in value:
            yield from iter_names(part, within)


def test_every_field_of_a_document_is_explained(omn: Any) -> None:
    """What a run with every emit, a filter, keys and a session window prints is in results.md, name by name."""
    shared = ["--interval", "20ms", "--format", "json"]
    runs = [
        omn(
            *["mem.faults", "-m", "poll", "-e", "summary@comm", "-e", "hist", "-e", "rate", "-e", "topk:2@comm"],
            *["-e", "timeline", "-e", "raw", "-e", "summary", "--keys", "task", "--filter", "value >= 0", *shared],
            *["--", "sleep", "0.2"],
        ),
        omn("mem.faults", "-m", "count", "-e", "count", "--format", "json", "--", "true"),
        omn("cpu.util", "--system", "-d", "100ms", *shared),
    ]
    page = read_page("results.md")
    names = {name for ran in runs for name in iter_names(ran.document)}
    assert len(names) > 90
    assert {name for name in names if f"`{name}`" not in page and f'"{name}"' not in page} == set()


def test_the_three_last_lines_are_those_of_the_code() -> None:
    """The table of last lines holds exactly what the command line prints."""
    lines = re.findall(r"^\| `(omn: .*?)` \|", read_page("exit-codes.md"), re.MULTILINE)
    assert lines == [REFUSED, FAILED, FAILED_AFTER]


def iter_templates() -> Iterator[str]:
    """Yield every text of the code, `…` in place of the values it is formatted with."""
    for path in iter_sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values]
                yield "".join(parts)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


@pytest.mark.parametrize(("page", "least"), [("exit-codes.md", 45), ("privileges.md", 6)])
def test_every_sentence_is_one_of_the_code(page: str, least: int) -> None:
    """A refusal that the manual quotes is said by the code, values apart."""
    templates = list(iter_templates())
    rows = re.findall(r"^\| `([^`|]*…[^`|]*)` \|", read_page(page), re.MULTILINE)
    assert len(rows) >= least
    for sentence in rows:
        assert any(_is_said(sentence, template) for template in templates), sentence


def _is_said(sentence: str, template: str) -> bool:
    """Whether a template reads like a sentence. A value that the template spells out counts as one."""
    parts = [part.strip() for part in sentence.split("…")]
    pattern = ".*".join(re.escape(part) for part in parts)
    return re.search(pattern, template) is not None


@pytest.mark.parametrize("language", ["yaml", "json", "toml"])
def test_every_session_of_the_manual_is_valid(omn: Any, language: str) -> None:
    """Each session of sessions.md validates as it stands, in its own format, and the three formats ask the same."""
    blocks = [block for _, block in iter_blocks(read_page("sessions.md"), language)]
    assert blocks
    for block in blocks:
        ran = omn("validate", "-f", "-", "--input-format", language, stdin=block.encode())
        assert ran.code == 0, ran.stderr
    asked = omn("-f", "-", "--input-format", language, "--dump-request", "--no-resolve", stdin=blocks[0].encode())
    yaml = next(block for _, block in iter_blocks(read_page("sessions.md"), "yaml"))
    assert asked.stdout == omn("-f", "-", "--dump-request", "--no-resolve", stdin=yaml.encode()).stdout


def test_what_the_manual_shows_of_the_example_family_is_the_example() -> None:
    """A block that names a file of examples/third-party is a part of that file, word for word."""
    page = read_page("plugins.md")
    blocks = [block for language in ("python", "yaml", "toml") for _, block in iter_blocks(page, language)]
    assert len(blocks) >= 7
    for block in blocks:
        head, _, body = block.partition("\n")
        text = (ROOT / "examples" / "third-party" / head.removeprefix("# ")).read_text()
        assert body.strip("\n") in text, head


def test_every_test_that_a_decision_names_is_there() -> None:
    """Each row of the decisions names the test that holds it, and the tree has it."""
    written = {
        name
        for folder in ("tests", "plugins", "examples")
        for path in (ROOT / folder).rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    rows = [row for row in read_page("decisions.md").splitlines() if row.startswith("| ") and "| choice |" not in row]
    named = [re.findall(r"`(test_\w+)` \|$", row) for row in rows]
    assert len(rows) > 40
    assert all(len(names) == 1 for names in named)
    assert {names[0] for names in named} - written == set()


@pytest.mark.spec("SEC-2")
def test_the_grant_that_is_documented_is_the_one_that_refusals_advise() -> None:
    """privileges.md shows the command word for word, with what it grants and a question in place of the dots."""
    shown = [text for _, text in iter_blocks(read_page("privileges.md"), "bash") if "setpriv" in text]
    granted = (["sys_ptrace"], "mem.pss --pid "), (["bpf", "perfmon"], "sched.runqlat -m trace ")
    for text, (capabilities, asked) in zip(shown, granted, strict=True):
        words = " ".join(text.replace("\\\n", " ").split())
        advised = describe_grant(capabilities).partition("start it with: ")[2].removesuffix("...")
        assert words.startswith(advised)
        assert words.removeprefix(advised).startswith(asked)


@pytest.mark.spec("SEC-2")
def test_installing_grants_nothing(registry: Registry) -> None:
    """No file that an installed distribution brought is set-user-ID, set-group-ID or carries a capability."""
    for name in registry.versions():
        brought = [Path(str(file.locate())) for file in distribution(name).files or ()]
        folders = [Path(record.module.__file__).parent for record in registry.records if record.distribution == name]
        inside = [path for folder in folders for path in folder.rglob("*")]
        files = [path for path in (*brought, *inside) if path.is_file()]
        assert files, name
        for path in files:
            assert not path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID), path
            assert find_file_grant(str(path)) is None, path


@pytest.mark.spec("SEC-2")
def test_nothing_raises_the_privileges_of_this_process() -> None:
    """No module sets user ids or a file's attributes, and one capabilities, to take them away from a program."""
    raising = {"setxattr", "capset", "setuid", "seteuid", "setresuid", "setgid", "setegid", "setresgid", "setgroups"}
    for path in iter_sources():
        names = {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
        lowering = {"capset"} if path.name == "linux_privileges.py" else set()
        assert not names & raising - lowering, path


@pytest.mark.spec("SEC-6")
def test_what_omn_does_not_do_is_said_and_the_licences_ship() -> None:
    """The four non-goals stand in limits.md, and every distribution is under the licence that the tree carries."""
    page = read_page("limits.md")
    goals = ("No resident daemon", "No several machines in one run", "No binary instrumentation", "No wrapped tools")
    for goal in goals:
        assert f"**{goal}.**" in page
    licence = (ROOT / "LICENSE").read_text()
    assert "Permission is hereby granted" in licence
    for folder in sorted((ROOT / "plugins").iterdir()):
        if (folder / "pyproject.toml").exists():
            assert (folder / "LICENSE").read_text() == licence, folder.name
    for path in (ROOT / "pyproject.toml", *(ROOT / "plugins").glob("*/pyproject.toml")):
        assert 'license = "MIT"' in path.read_text(), path


@pytest.mark.spec("SEC-6")
def test_a_run_under_a_sysroot_says_so_in_its_document(omn: Any, sysroot: Any) -> None:
    """The document names the folder that stood in for the machine."""
    sysroot.write("proc/loadavg", "0.75 0.50 12.25 3/456 7890\n")
    ran = omn("cpu.load", "-m", "snapshot", "-e", "summary", "--format", "json", OMN_SYSROOT=str(sysroot))
    assert ran.code == 0, ran.stderr
    assert ran.document["environment"]["sysroot"] == str(sysroot)
    assert f"{str(sysroot)!r} stood in for / in this run" in ran.document["notes"]


def test_every_link_of_a_page_leads_somewhere() -> None:
    """A relative link names a file of the tree."""
    pages = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(DOCS / "catalog").glob("*.md")]
    for page in pages:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


@pytest.mark.parametrize(
    "folder",
    [
        "plugins/mem",
        "plugins/cpu",
        "plugins/proc",
        "plugins/io",
        "plugins/gpu",
        "plugins/net",
        "plugins/sched",
        "plugins/power",
        "plugins/runtime",
        "examples/third-party",
    ],
)
def test_a_familys_readme_explains_and_shows_each_source(folder: str) -> None:
    """Each source has a section with a sentence and a command that asks it."""
    text = (ROOT / folder / "README.md").read_text()
    (catalog,) = (ROOT / folder).glob("omn_*/catalog.yaml")
    for source in re.findall(r"^\s*- id: (\w+\.\w+)$", catalog.read_text(), re.MULTILINE):
        section = text.partition(f"\n## {source}\n")[2].partition("\n## ")[0]
        assert re.search(r"\w+ \w+ \w+.*\.", section), source
        assert f"omn {source}" in section, source

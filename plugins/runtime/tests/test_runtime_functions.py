"""Which functions a filter names, by each of the ways to spell one."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiled import compile_c
from omn_kernel.elf.functions import list_function_names
from omn_kernel.elf.image import read_image
from omn_kernel.elf.source import File
from omn_runtime.functions import FunctionFilter

from omn_core.api import compile_filter

# The first three are what a C++ compiler makes of `ns::Parser::parse(int) const`, of `int ns::twice<int>(int)` and of
# `ns::Parser::operator()(int)`.
SOURCE = """
int _ZNK2ns6Parser5parseEi(void) { return 1; }
int _ZN2ns5twiceIiEET_S1_(void) { return 2; }
int _ZN2ns6ParserclEi(void) { return 3; }
int parse(void) { return 4; }
int reparse(void) { return 5; }
static int hidden(void) { return 6; }
int main(void) { return hidden(); }
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c(tmp_path_factory.mktemp("named"), "named", SOURCE, "-O0")


def choose(program: Path, text: str, path: str = "/opt/named") -> dict[str, str]:
    """Return the functions that a filter chooses, the linker's name of each and the spelling that was asked for."""
    with File(str(program)) as file:
        chosen = FunctionFilter(compile_filter(text)).choose(read_image(file), path)
    assert {one.path for one in chosen} <= {path}
    return {one.linked: one.shown for one in chosen}


@pytest.mark.spec("SRC-7", "RTM-1")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("function == 'parse'", {"parse": "parse"}),
        ("function == 'hidden'", {"hidden": "hidden"}),
        ("function == '_ZNK2ns6Parser5parseEi'", {"_ZNK2ns6Parser5parseEi": "_ZNK2ns6Parser5parseEi"}),
        ("function == 'ns::Parser::parse'", {"_ZNK2ns6Parser5parseEi": "ns::Parser::parse"}),
        ("function == 'ns::Parser::parse(int) const'", {"_ZNK2ns6Parser5parseEi": "ns::Parser::parse(int) const"}),
        ("function == 'ns::twice<int>'", {"_ZN2ns5twiceIiEET_S1_": "ns::twice<int>"}),
        ("function == 'int ns::twice<int>(int)'", {"_ZN2ns5twiceIiEET_S1_": "int ns::twice<int>(int)"}),
        ("function == 'ns::Parser::operator()'", {"_ZN2ns6ParserclEi": "ns::Parser::operator()"}),
        ("function in ('parse', 'reparse')", {"parse": "parse", "reparse": "reparse"}),
        ("function =~ '^rep'", {"reparse": "reparse"}),
        ("function =~ 'e?parse$' and function != 'parse' and not function =~ 'ns'", {"reparse": "reparse"}),
        ("function == 'parse' and duration_ns > 5", {"parse": "parse"}),
        ("function == 'parse' and object == '/opt/named'", {"parse": "parse"}),
        ("function == 'parse' and object == '/opt/other'", {}),
        ("function == 'parse' and not object =~ 'named'", {}),
        ("function == 'pars'", {}),
    ],
)  # fmt: skip
def test_a_function_is_named_as_its_linker_or_its_language_spells_it(
    program: Path, text: str, expected: dict[str, str]
) -> None:
    """As spelt, demangled, without parameters and without the type that a template's name begins with; no other."""
    assert choose(program, text) == expected


def test_some_names_are_found_among_all(program: Path) -> None:
    """Those that hold a text, and none that is the end of another's only by chance."""
    with File(str(program)) as file:
        image = read_image(file)
        every = list_function_names(image)
        assert {"parse", "reparse", "hidden", "main"} <= every
        assert list_function_names(image, ["parse"]) == {name for name in every if "parse" in name}
        assert list_function_names(image, ["no such part"]) == set()

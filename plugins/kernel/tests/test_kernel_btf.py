"""The kernel's type information: prototypes spelt from synthetic and from real bytes."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omn_kernel.btf.kernel import PATH, read_kernel_btf
from omn_kernel.btf.spelling import spell_function, spell_tracepoint
from omn_kernel.btf.types import Btf
from omn_kernel.probes.prototypes import parse_shapes
from type_information import ARRAY, CONST, ENUM64, FUNC, FWD, INT, PROTO, PTR, STRUCT, TYPE_TAG, TYPEDEF, VAR, Maker


@pytest.fixture
def types() -> Btf:
    """A function of a few arguments, a tracepoint, and kinds of types around them that must be stepped over."""
    maker = Maker()
    maker.add("int", INT, 4, 32)  # 1
    maker.add("task_struct", STRUCT, 8, 0, 1, 0, 0, 1, 32, count=2)  # 2
    maker.add("", PTR, 2)  # 3
    maker.add("", CONST, 2)  # 4
    maker.add("", PTR, 4)  # 5
    maker.add("u64", TYPEDEF, 1)  # 6
    maker.add("", ARRAY, 0, 1, 1, 4)  # 7
    maker.add("big", ENUM64, 8, 0, 1, 0, 0, 2, 0, count=2)  # 8
    maker.add("per_cpu", VAR, 1, 0)  # 9
    maker.add("opaque", FWD, 0)  # 10
    maker.add("", PTR, 10)  # 11
    maker.add("", PTR, 0)  # 12
    maker.add("", TYPE_TAG, 2)  # 13
    maker.add("", PTR, 13)  # 14
    maker.add("", PROTO, 1, 0, 5, 0, 6, 0, 8, 0, 11, 0, 14, count=5)  # 15
    maker.add("do_thing", FUNC, 15, count=0)  # 16
    maker.add("", PROTO, 0, 0, 12, 0, 1, 0, 3, count=3)  # 17
    maker.add("", PTR, 17)  # 18
    maker.add("btf_trace_thing_done", TYPEDEF, 18)  # 19
    maker.add("", PROTO, 0)  # 20
    maker.add("idle", FUNC, 20)  # 21
    return Btf(maker.make())


@pytest.mark.spec("PRB-4")
def test_a_functions_arguments_are_spelt_without_qualifiers(types: Btf) -> None:
    """const and tags are left out, typedefs and enumerations keep their names."""
    identifier = types.find_function("do_thing")
    assert identifier == 16
    assert spell_function(types, identifier) == (
        "struct task_struct*",
        "u64",
        "enum big",
        "struct opaque*",
        "struct task_struct*",
    )


@pytest.mark.spec("PRB-4")
def test_a_tracepoints_arguments_leave_out_the_kernels_own(types: Btf) -> None:
    """The first argument is the kernel's, the program is handed those after it."""
    identifier = types.find_tracepoint("thing_done")
    assert identifier is not None
    assert spell_tracepoint(types, identifier) == ("int", "struct task_struct*")


def test_a_function_without_arguments_has_none(types: Btf) -> None:
    """An empty prototype is an empty tuple."""
    identifier = types.find_function("idle")
    assert identifier is not None
    assert spell_function(types, identifier) == ()


@pytest.mark.parametrize("compiler", ["long unsigned int", "unsigned long"])
def test_an_integer_is_spelt_alike_whatever_compiled_the_kernel(compiler: str) -> None:
    """gcc and clang have other words for one type, and a catalog lists it once."""
    maker = Maker()
    maker.add(compiler, INT, 8, 64)
    maker.add("", PROTO, 0, 0, 1, count=1)
    maker.add("f", FUNC, 2)
    types = Btf(maker.make())
    assert spell_function(types, 3) == parse_shapes("f(unsigned long int)")[1][0] == ("unsigned long",)


@pytest.mark.parametrize("name", ["u64", "thing_done", "task_struct", "do_thin", "thing", ""])
def test_a_name_that_is_no_function_is_not_found(types: Btf, name: str) -> None:
    """Neither another kind of type nor part of a name is a function."""
    assert types.find_function(name) is None


@pytest.mark.spec("SEC-4")
@pytest.mark.parametrize("content", [b"", b"\x9f\xeb", b"\xeb\x9f" + b"\0" * 30, b"\x9f\xeb\x02" + b"\0" * 30])
def test_bytes_that_are_no_types_are_refused(content: bytes) -> None:
    """A wrong mark, a wrong version and a short header are one kind of error."""
    with pytest.raises(ValueError, match="type information"):
        Btf(content)


@pytest.mark.spec("SEC-4")
@given(st.data())
def test_damaged_types_raise_value_error_or_read(data: st.DataObject) -> None:
    """Any bytes changed: an error that says so, or names that read, never another exception and never a hang."""
    maker = Maker()
    maker.add("int", INT, 4, 32)
    maker.add("", PTR, 1)
    maker.add("", PROTO, 1, 0, 2, 0, 1, count=2)
    maker.add("f", FUNC, 3)
    content = bytearray(maker.make())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        types = Btf(bytes(content))
        identifier = types.find_function("f")
        if identifier is not None:
            spell_function(types, identifier)
    except ValueError:
        pass


@pytest.mark.spec("SEC-4")
def test_a_type_that_refers_to_itself_ends() -> None:
    """A loop of pointers is an error, not a hang."""
    maker = Maker()
    maker.add("", PTR, 1)
    maker.add("", PROTO, 0, 0, 1, count=1)
    maker.add("f", FUNC, 2)
    types = Btf(maker.make())
    with pytest.raises(ValueError, match="refers to itself"):
        spell_function(types, 3)


def test_the_running_kernels_types_are_read() -> None:
    """Every kernel has a file read and a switch of tasks."""
    if not os.path.exists(PATH):
        pytest.skip(f"this kernel has no {PATH}")
    types = read_kernel_btf("/")
    assert len(types) > 10000
    identifier = types.find_function("vfs_fsync_range")
    assert identifier is not None
    assert spell_function(types, identifier) == ("struct file*", "loff_t", "loff_t", "int")
    switch = types.find_tracepoint("sched_switch")
    assert switch is not None
    assert spell_tracepoint(types, switch)[:3] == ("bool", "struct task_struct*", "struct task_struct*")


@pytest.mark.parametrize(
    ("argument", "name", "shapes"),
    [
        ("vfs_read", "vfs_read", None),
        ("f()", "f", ((),)),
        ("f(const struct file *,int)", "f", (("struct file*", "int"),)),
        ("f(bool|bool,unsigned  int)", "f", (("bool",), ("bool", "unsigned int"))),
        ("f(char * *)", "f", (("char**",),)),
        ("f(long unsigned int,unsigned long|short int *)", "f", (("unsigned long", "unsigned long"), ("short*",))),
        ("f(unsigned,signed,unsigned char)", "f", (("unsigned int", "int", "unsigned char"),)),
    ],
)
def test_shapes_are_spelt_as_the_types_are(argument: str, name: str, shapes: object) -> None:
    """Spaces, const and the words of an integer make no difference; an empty list is a function without arguments."""
    assert parse_shapes(argument) == (name, shapes)

"""Where fields lie: on types made by hand, and on the running kernel's."""

from __future__ import annotations

import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omn_kernel.btf.fields import Field, FieldMissing, find_enumerator, get_enumerator, get_fields, get_size, has_field
from omn_kernel.btf.kernel import PATH, read_kernel_btf
from omn_kernel.btf.types import Btf
from type_information import ARRAY, CONST, ENUM, ENUM64, INT, PTR, TYPEDEF, UNION, Maker

from omn_core.api import MachineRefused

SIGNED = 1 << 24 | 32
BITS = 1 << 24


def make_types() -> bytes:
    """Make a task that points at another structure, with what C has: anonymous members, arrays, bit fields."""
    maker = Maker()
    number = maker.add("int", INT, 4, SIGNED)
    word = maker.add("u64", INT, 8, 64)
    times = maker.add("", ARRAY, 0, word, number, 3)
    tty = maker.add_struct("tty", 16, ("index", number, 64))
    to_tty = maker.add("", PTR, maker.add("", CONST, tty))
    signal = maker.add_struct("signal", 40, ("tty", to_tty, 64), ("times", times, 128))
    alias = maker.add("signal_t", TYPEDEF, signal)
    to_signal = maker.add("", PTR, alias)
    either = maker.add_struct("", 8, ("whole", word, 0), ("half", number, 32), kind=UNION)
    maker.add_struct("task", 56, ("pid", number, 0), ("", either, 64), ("signal", to_signal, 128), ("own", signal, 192))
    maker.add_struct(
        "flags", 8, ("plain", number, 0), ("one", number, 1 << 24 | 33), ("three", number, 3 << 24 | 36), flag=1
    )
    maker.add("reason", ENUM, 4, maker.name("NONE"), 0, maker.name("BAD"), -1, count=2, flag=1)
    maker.add("wide", ENUM64, 8, maker.name("HUGE"), 5, 1, count=1)
    # What a name's place is may be another's value.
    maker.add("", ENUM, 4, maker.name("FIRST"), maker.name("OWNERLESS"), maker.name("OWNERLESS"), 8, count=2)
    return maker.make()


@pytest.fixture(scope="module")
def types() -> Btf:
    return Btf(make_types())


@pytest.mark.parametrize(
    ("path", "offsets", "size"),
    [
        ("pid", [0], 4),
        ("whole", [8], 8),
        ("half", [12], 4),
        ("own.times[2]", [24 + 16 + 16], 8),
        ("own.tty.index", [24 + 8, 8], 4),
        ("signal.tty.index", [16, 8, 8], 4),
        ("signal.times", [16, 16], 24),
    ],
)
@pytest.mark.spec("KRN-2")
def test_a_path_is_a_read_for_each_pointer_on_it(types: Btf, path: str, offsets: list[int], size: int) -> None:
    """Embedded and nameless members add up to one offset; a pointer that the path goes through is a read of its own."""
    found = get_fields(types, "task", path)
    assert [field.offset for field in found] == offsets
    assert found[-1].size == size
    assert all(field.size == 8 for field in found[:-1])


def test_a_bit_field_says_which_bits_of_which_bytes(types: Btf) -> None:
    """Bit 33 is the second bit of the second four bytes; a whole member beside it has none."""
    (one,), (three,) = get_fields(types, "flags", "one"), get_fields(types, "flags", "three")
    assert (one.offset, one.size, one.bit_offset, one.bit_size) == (4, 4, 1, 1)
    assert (three.offset, three.size, three.bit_offset, three.bit_size) == (4, 4, 4, 3)
    assert get_fields(types, "flags", "plain") == (Field(0, 4, 1, is_signed=True),)


@pytest.mark.parametrize(
    ("name", "path", "said"),
    [
        ("task", "colour", "task has no field colour"),
        ("task", "signal.colour", "signal has no field colour"),
        ("nothing", "pid", "no such type"),
        ("task", "pid.low", "pid has no members"),
        ("task", "own.times[3]", "3 elements"),
        ("task", "pid[0]", "no array"),
        ("task", "own..tty", "no field"),
    ],
)
@pytest.mark.spec("KRN-2")
def test_a_missing_field_is_an_error_that_names_type_and_field(types: Btf, name: str, path: str, said: str) -> None:
    """It is the machine's refusal: another kernel has the field, and no offset is guessed."""
    with pytest.raises(FieldMissing) as missing:
        get_fields(types, name, path)
    assert isinstance(missing.value, MachineRefused)
    assert f"{name}.{path}" in str(missing.value)
    assert said in str(missing.value)
    assert not has_field(types, name, path)


def test_a_type_is_there_or_not(types: Btf) -> None:
    """A program asks before it writes the shape that reads it; a typedef is what it names."""
    assert has_field(types, "task")
    assert has_field(types, "signal_t", "tty")
    assert not has_field(types, "u64")
    assert get_size(types, "signal_t") == 40
    with pytest.raises(FieldMissing, match="reads colour, which"):
        get_size(types, "colour")


def test_a_name_of_an_enumeration_has_its_value(types: Btf) -> None:
    """Signed where the enumeration is, 64 bits where it has as many."""
    assert get_enumerator(types, "reason", "BAD") == -1
    assert get_enumerator(types, "wide", "HUGE") == 1 << 32 | 5
    with pytest.raises(FieldMissing, match="the enumeration has no WORSE"):
        get_enumerator(types, "reason", "WORSE")
    with pytest.raises(FieldMissing, match="no such enumeration"):
        get_enumerator(types, "task", "BAD")


def test_a_name_is_found_in_an_enumeration_without_one(types: Btf) -> None:
    """And in one that has a name; nothing else of that name is taken for it."""
    assert [find_enumerator(types, name) for name in ("OWNERLESS", "BAD", "HUGE")] == [8, -1, 1 << 32 | 5]
    assert [find_enumerator(types, name) for name in ("WORSE", "pid", "reason")] == [None] * 3


@pytest.mark.spec("SEC-4")
@given(st.data())
def test_damaged_types_are_an_error_or_are_read(data: st.DataObject) -> None:
    """Bytes changed or cut off: ValueError or a field that is missing, never another exception and never a hang."""
    content = bytearray(make_types())
    for _ in range(data.draw(st.integers(0, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.one_of(st.just(len(content)), st.integers(0, len(content))))]
    try:
        types = Btf(bytes(content))
        for path in ("pid", "half", "own.times[2]", "signal.tty.index"):
            has_field(types, "task", path)
        get_enumerator(types, "wide", "HUGE")
    except (ValueError, FieldMissing):
        pass


@pytest.mark.spec("SEC-4")
@given(st.binary(max_size=256))
def test_any_words_are_types_or_an_error(words: bytes) -> None:
    """A header that is right, and behind it whatever there is."""
    header = struct.pack("=HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(words), len(words), 8)
    try:
        types = Btf(header + words + b"\0task\0\0\0")
        has_field(types, "task", "pid")
    except ValueError:
        pass


def test_the_running_kernels_task_has_its_fields() -> None:
    """Two numbers of the same width side by side, a name of 16 bytes, and an account inside it."""
    if not os.path.exists(PATH):
        pytest.skip(f"this kernel has no {PATH}")
    types = read_kernel_btf("/")
    (pid,), (tgid,), (comm,) = (get_fields(types, "task_struct", name) for name in ("pid", "tgid", "comm"))
    assert (pid.size, tgid.size, comm.size) == (4, 4, 16)
    assert tgid.offset == pid.offset + 4
    assert pid.is_signed
    assert len(get_fields(types, "task_struct", "signal.tty.index")) == 3
    assert get_enumerator(types, "pid_type", "PIDTYPE_TGID") == 1
    (bit,) = get_fields(types, "task_struct", "in_iowait")
    assert bit.bit_size == 1

"""The native entry to bpf(2), against the running kernel."""

from __future__ import annotations

import errno
import os
import struct

import pytest
from omn_kernel.native import calls
from omn_kernel.native._calls import lib

pytestmark = pytest.mark.usefixtures("loads_programs")
RETURN_ZERO = struct.pack("=BBhiBBhi", 0xB7, 0, 0, 0, 0x95, 0, 0, 0)
READ_R2 = struct.pack("=BBhiBBhi", 0xBF, 0x20, 0, 0, 0x95, 0, 0, 0)


def test_a_program_is_loaded_under_its_name_and_gone_when_closed() -> None:
    """The kernel knows the program by an id while the descriptor is open, and not a moment longer."""
    program = calls.load_program(lib.BPF_PROG_TYPE_RAW_TRACEPOINT, RETURN_ZERO, name=b"omn_nothing")
    number = calls.read_program_information(program).number
    again = calls.bpf(lib.BPF_PROG_GET_FD_BY_ID, calls.make_attributes(start_id=number))
    os.close(again)
    os.close(program)
    with pytest.raises(FileNotFoundError):
        calls.bpf(lib.BPF_PROG_GET_FD_BY_ID, calls.make_attributes(start_id=number))


def test_the_verifier_says_in_the_log_what_it_refuses() -> None:
    """A register that was never written may not be read, and the log names it."""
    log = bytearray(4096)
    with pytest.raises(PermissionError) as refused:
        calls.load_program(lib.BPF_PROG_TYPE_RAW_TRACEPOINT, READ_R2, log=log)
    assert refused.value.errno == errno.EACCES
    assert b"R2 !read_ok" in log.split(b"\0")[0]


def test_a_map_is_written_and_read_through_the_one_entry() -> None:
    """A value that was stored under a key is the value that is found there, and another key finds none."""
    table = calls.create_map(lib.BPF_MAP_TYPE_HASH, 4, 8, 8)
    try:
        key, other, value, found = struct.pack("=I", 7), struct.pack("=I", 8), struct.pack("=Q", 11), bytearray(8)
        stored = calls.make_attributes(map_fd=table, key=calls.address_of(key), value=calls.address_of(value))
        calls.bpf(lib.BPF_MAP_UPDATE_ELEM, stored)
        wanted = calls.make_attributes(map_fd=table, key=calls.address_of(key), value=calls.address_of(found))
        calls.bpf(lib.BPF_MAP_LOOKUP_ELEM, wanted)
        assert found == value
        wanted.key = calls.address_of(other)
        with pytest.raises(FileNotFoundError):
            calls.bpf(lib.BPF_MAP_LOOKUP_ELEM, wanted)
    finally:
        os.close(table)

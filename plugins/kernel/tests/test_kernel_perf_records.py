"""Records of perf events taken apart: samples in columns, chains, the other records, and bytes that are none."""

from __future__ import annotations

import struct

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from omn_kernel.native._perf import lib
from omn_kernel.perf.attributes import Sampling
from omn_kernel.perf.call_stacks import compute_chain_sites
from omn_kernel.perf.records import (
    Ended,
    Lost,
    Mapped,
    Named,
    Record,
    Records,
    Started,
    Throttled,
    parse_records,
)
from omn_kernel.perf.samples import Samples
from omn_kernel.perf.weights import compute_periods

KERNEL, USER = (1 << 64) - 128, (1 << 64) - 512
"""PERF_CONTEXT_KERNEL and PERF_CONTEXT_USER, the marks between the parts of a chain."""


def make_record(kind: int, body: bytes, misc: int = 0) -> bytes:
    body += b"\0" * (-len(body) % 8)
    return struct.pack("=IHH", kind, misc, 8 + len(body)) + body


def make_sample(pid: int, tid: int, time: int, cpu: int, period: int, chain: list[int] | None = None) -> bytes:
    address = 0x1000 if not chain else chain[-1]
    body = struct.pack("=QiiQIIQ", address, pid, tid, time, cpu, 0, period)
    if chain is not None:
        body += struct.pack(f"={len(chain) + 1}Q", len(chain), *chain)
    return make_record(lib.PERF_RECORD_SAMPLE, body)


def make_trailer(time: int) -> bytes:
    return struct.pack("=IIQII", 1, 1, time, 0, 0)


def pad(text: bytes) -> bytes:
    return text + b"\0" * (8 - len(text) % 8)


def parse(*records: bytes, has_chains: bool = True) -> Records:
    return parse_records(np.frombuffer(b"".join(records), np.uint8), Sampling(hz=997, has_chains=has_chains))


def test_samples_stand_in_columns() -> None:
    """A row each, in order, with the chain's addresses alone and how many of them are the kernel's."""
    samples = parse(
        make_sample(7, 8, 100, 1, 1003009, [KERNEL, 0xFFFF800000000010, 0xFFFF800000000020, USER, 0x400, 0x500]),
        make_sample(7, 9, 200, 0, 5, []),
        make_sample(-1, -1, 300, 0, 6, [USER, 0x600]),
    ).samples
    assert samples.pid.tolist() == [7, 7, -1]
    assert samples.tid.tolist() == [8, 9, -1]
    assert samples.time.tolist() == [100, 200, 300]
    assert samples.cpu.tolist() == [1, 0, 0]
    assert samples.period.tolist() == [1003009, 5, 6]
    assert samples.chain_starts.tolist() == [0, 4, 4]
    assert samples.chain_lengths.tolist() == [4, 0, 1]
    assert samples.kernel_frames.tolist() == [2, 0, 0]
    assert samples.addresses.tolist() == [0xFFFF800000000010, 0xFFFF800000000020, 0x400, 0x500, 0x600]
    assert len(samples) == 3
    assert samples.nbytes > 0


def test_the_address_of_a_caller_is_inside_its_call() -> None:
    """One before where it is returned to; the first of the kernel's part and of the program's is where it was."""
    samples = parse(
        make_sample(7, 7, 1, 0, 1, [KERNEL, 0xFFFF800000000010, 0xFFFF800000000020, USER, 0x400, 0x500]),
        make_sample(7, 7, 2, 0, 1, []),
        make_sample(7, 7, 3, 0, 1, [USER, 0x600, 0x700]),
        make_sample(7, 7, 4, 0, 1, [KERNEL, 0xFFFF800000000030]),
    ).samples
    assert compute_chain_sites(samples).tolist() == [
        0xFFFF800000000010,
        0xFFFF80000000001F,
        0x400,
        0x4FF,
        0x600,
        0x6FF,
        0xFFFF800000000030,
    ]


def test_samples_without_chains_have_none() -> None:
    """What was not asked for is not read out of what follows."""
    samples = parse(make_sample(1, 1, 5, 0, 3), make_sample(1, 1, 6, 0, 3), has_chains=False).samples
    assert samples.chain_lengths.tolist() == [0, 0]
    assert samples.time.tolist() == [5, 6]


ORDER = (0, 3, 2, 1, 4, 5, 6, 7, 16, 8, 9, 10, 11, 12, 13, 14, 15)
"""Where DWARF puts each register that the kernel dumps: rax rbx rcx rdx rsi rdi rbp rsp rip r8 to r15."""


def make_copy(abi: int, stack: bytes, room: int = 64) -> bytes:
    """Make the end of a sample: registers that are a hundred more than their number in DWARF, and a stack."""
    body = struct.pack("=Q", abi) + (struct.pack("=17Q", *(100 + one for one in ORDER)) if abi else b"")
    if not room:
        return body + struct.pack("=Q", 0)
    return body + struct.pack("=Q", room) + stack.ljust(room, b"?") + struct.pack("=Q", len(stack))


@pytest.mark.spec("STK-2")
def test_registers_stand_as_dwarf_numbers_them_and_stacks_as_far_as_they_were_there() -> None:
    """A sample each of a program, of one of 32 bits, of the kernel's own task, and of a program whose stack was out."""
    fixed = struct.pack("=QiiQIIQ", 0x400, 7, 7, 5, 0, 0, 3) + struct.pack("=QQQ", 2, KERNEL, 0xFFFF800000000010)
    bodies = [make_copy(2, b"abcdefgh"), make_copy(1, b"12345678"), make_copy(0, b"", 0), make_copy(2, b"")]
    data = b"".join(make_record(lib.PERF_RECORD_SAMPLE, fixed + body) for body in bodies)
    sampling = Sampling(hz=997, has_chains=True, excludes_user_chains=True, copies_registers=True, stack_bytes=64)
    samples = parse_records(np.frombuffer(data, np.uint8), sampling).samples
    copied = samples.copied
    assert copied is not None
    assert copied.registers[0].tolist() == [100 + number for number in range(17)]
    assert not copied.registers[1:3].any()
    assert copied.registers[3].any()
    assert [bytes(copied.stacks[a:b]) for a, b in zip(copied.starts, copied.ends, strict=True)] == [
        b"abcdefgh",
        b"",
        b"",
        b"",
    ]
    assert samples.kernel_frames.tolist() == [1, 1, 1, 1]
    both = Samples.concatenate([samples, samples]).copied
    assert both is not None
    assert [bytes(both.stacks[a:b]) for a, b in zip(both.starts, both.ends, strict=True)][4] == b"abcdefgh"
    assert samples.nbytes > samples.drop_chains().nbytes


@given(st.binary(max_size=400))
def test_copies_that_are_none_are_read_within_their_record(body: bytes) -> None:
    """Whatever a sample ends in, nothing beyond it is read, and what was copied lies inside it."""
    data = np.frombuffer(make_record(lib.PERF_RECORD_SAMPLE, body), np.uint8)
    sampling = Sampling(hz=997, has_chains=True, copies_registers=True, stack_bytes=64)
    samples = parse_records(data, sampling).samples
    if len(samples):
        assert samples.copied is not None
        assert len(samples.copied.stacks) <= len(body)


def test_a_fixed_period_is_what_each_sample_stands_for() -> None:
    """The records of such an event carry none."""
    body = struct.pack("=QiiQIIQQ", 1, 1, 1, 5, 0, 0, 1, 0x400)
    data = np.frombuffer(make_record(lib.PERF_RECORD_SAMPLE, body), np.uint8)
    samples = parse_records(data, Sampling(period=100, has_chains=True)).samples
    assert (samples.period.tolist(), samples.addresses.tolist()) == ([100], [0x400])


def test_what_else_was_asked_stands_where_the_kernel_puts_it() -> None:
    """The address that was accessed and the stream's number before the cpu; in trailers the latter alone."""
    sampling = Sampling(hz=997, has_chains=True, has_accesses=True, has_streams=True)
    body = struct.pack("=QiiQQQIIQ", 0x10, 7, 8, 100, 0xFEED, 42, 3, 0, 1000) + struct.pack("=3Q", 2, USER, 0x400)
    comm = struct.pack("=ii", 7, 8) + pad(b"name") + struct.pack("=IIQQII", 7, 8, 200, 42, 3, 0)
    data = make_record(lib.PERF_RECORD_SAMPLE, body) + make_record(lib.PERF_RECORD_COMM, comm)
    records = parse_records(np.frombuffer(data, np.uint8), sampling)
    samples = records.samples
    assert (samples.accessed.tolist(), samples.stream.tolist()) == ([0xFEED], [42])
    assert (samples.time.tolist(), samples.cpu.tolist(), samples.period.tolist()) == ([100], [3], [1000])
    assert samples.addresses.tolist() == [0x400]
    assert records.others == (Named(7, 8, b"name", False, 200),)
    plain = parse(make_sample(1, 1, 5, 0, 3)).samples
    assert (len(plain.accessed), len(plain.stream)) == (0, 0)


class KernelEvent:
    """A software event in frequency mode, as perf_swevent_event and perf_swevent_set_period count it down."""

    def __init__(self, stream: int, period: int) -> None:
        self.stream, self.sample_period, self.last_period = stream, period, period
        self.left = period
        self.since = 0

    def occur(self, adjusted: int) -> tuple[int, int, int] | None:
        """Let it occur: the stream, the period that a sample states and the one it ended, where one is written."""
        self.since += 1
        self.left -= 1
        if self.left:
            return None
        stated, ended, self.since = self.last_period, self.since, 0
        self.left = self.last_period
        self.last_period = self.sample_period
        self.sample_period = adjusted
        return self.stream, stated, ended


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 9)), max_size=200), st.integers(1, 9))
def test_a_sample_ends_the_period_that_the_one_before_it_stated(
    occurrences: list[tuple[bool, int]], inherited: int
) -> None:
    """Whatever the kernel adjusts, of events that take turns; an inherited one's first states the period it ends."""
    opened, child = KernelEvent(5, 1), KernelEvent(9, inherited)
    written = [(child if is_child else opened).occur(adjusted) for is_child, adjusted in occurrences]
    stated = np.array([one for one in written if one is not None], np.uint64).reshape(-1, 3)
    empty = parse().samples
    samples = attrs.evolve(empty, stream=stated[:, 0], period=stated[:, 1])
    assert compute_periods(samples, [5, 6]).tolist() == stated[:, 2].tolist()


def test_a_chain_longer_than_its_record_is_no_chain() -> None:
    """No kernel writes one: nothing beyond the record is read."""
    body = struct.pack("=QiiQIIQ", 1, 1, 1, 1, 0, 0, 1) + struct.pack("=Q", 1 << 60)
    records = parse(make_record(lib.PERF_RECORD_SAMPLE, body), make_sample(2, 2, 2, 0, 2, [USER, 3]))
    assert records.samples.chain_lengths.tolist() == [0, 1]
    assert records.cut_bytes == 0


def test_other_records_are_made_one_by_one() -> None:
    """Names, starts, ends, mappings, losses and throttling, each with its time where it has one."""
    mapping = struct.pack("=iiQQQIIQQII", 7, 7, 0x1000, 0x2000, 0x3000, 8, 1, 99, 0, 5, 2)
    others = parse(
        make_record(lib.PERF_RECORD_COMM, struct.pack("=ii", 7, 8) + pad(b"a b;c") + make_trailer(10)),
        make_record(
            lib.PERF_RECORD_COMM,
            struct.pack("=ii", 7, 7) + pad(b"\xff") + make_trailer(11),
            lib.PERF_RECORD_MISC_COMM_EXEC,
        ),
        make_record(lib.PERF_RECORD_FORK, struct.pack("=iiiiQ", 9, 7, 9, 8, 12) + make_trailer(12)),
        make_record(lib.PERF_RECORD_EXIT, struct.pack("=iiiiQ", 9, 7, 10, 8, 13) + make_trailer(13)),
        make_record(lib.PERF_RECORD_MMAP2, mapping + pad(b"/lib/x y") + make_trailer(14)),
        make_record(lib.PERF_RECORD_LOST, struct.pack("=QQ", 1, 33) + make_trailer(15)),
        make_record(lib.PERF_RECORD_LOST_SAMPLES, struct.pack("=Q", 44) + make_trailer(16)),
        make_record(lib.PERF_RECORD_THROTTLE, struct.pack("=QQQ", 17, 1, 1) + make_trailer(17)),
        make_record(1000, b"from a kernel of another time"),
    ).others
    assert others == (
        Named(7, 8, b"a b;c", False, 10),
        Named(7, 7, b"\xff", True, 11),
        Started(9, 9, 7, 8, 12),
        Ended(9, 10, 13),
        Mapped(7, 0x1000, 0x2000, 0x3000, (8, 1), 99, b"/lib/x y", 14),
        Lost(33),
        Lost(44),
        Throttled(17),
    )


def test_a_mapping_names_its_file_by_build_id_where_the_kernel_read_one() -> None:
    """The id as long as it says to be, in place of the device and the inode."""
    head = struct.pack("=iiQQQ", 7, 8, 0x1000, 0x2000, 0x3000)
    records = [
        make_record(
            lib.PERF_RECORD_MMAP2,
            head + struct.pack("=B3x20sII", size, bytes(range(20)), 5, 2) + pad(b"/lib/x") + make_trailer(14),
            lib.PERF_RECORD_MISC_MMAP_BUILD_ID,
        )
        for size in (20, 8)
    ]
    whole, short = parse(*records).others
    assert whole == Mapped(7, 0x1000, 0x2000, 0x3000, None, None, b"/lib/x", 14, bytes(range(20)).hex())
    assert isinstance(short, Mapped)
    assert short.build_id == bytes(range(8)).hex()


def test_a_record_shorter_than_its_kind_is_passed_over() -> None:
    """And what follows it is read."""
    records = parse(*(make_record(kind, b"") for kind in range(1, 14)), make_sample(1, 1, 1, 0, 1, []))
    assert records.others == ()
    assert len(records.samples) == 1


def test_samples_laid_end_to_end_keep_their_chains() -> None:
    """The second part's begin where the first part's end."""
    parts = [
        parse(make_sample(1, 1, 1, 0, 1, [USER, 2, 3]), make_sample(1, 1, 2, 0, 1, [])).samples,
        parse().samples,
        parse(make_sample(2, 2, 3, 0, 1, [KERNEL, 4, USER, 5])).samples,
    ]
    joined = Samples.concatenate(parts)
    assert joined.addresses.tolist() == [2, 3, 4, 5]
    assert (joined.chain_starts.tolist(), joined.chain_lengths.tolist()) == ([0, 2, 2], [2, 0, 2])
    assert (joined.pid.tolist(), joined.kernel_frames.tolist()) == ([1, 1, 2], [0, 0, 1])


def test_nothing_is_nothing() -> None:
    """An empty drain has no rows."""
    records = parse()
    assert (len(records.samples), records.others, records.cut_bytes) == (0, (), 0)


def test_a_record_that_is_cut_is_counted_and_not_read() -> None:
    """Half a record tells nothing."""
    whole = make_sample(1, 1, 1, 0, 1, [USER, 2])
    records = parse(whole, whole[:-8])
    assert len(records.samples) == 1
    assert records.cut_bytes == len(whole) - 8


@given(st.binary(max_size=600), st.booleans(), st.sampled_from([None, 997]))
def test_any_bytes_are_taken_apart_within_bounds(data: bytes, has_chains: bool, hz: int | None) -> None:
    """Whatever stands there, what is read is within it and adds up."""
    records = parse_records(np.frombuffer(data, np.uint8), Sampling(hz, 7, has_chains=has_chains))
    assert 0 <= records.cut_bytes <= len(data)
    assert len(records.samples) + len(records.others) <= len(data) // 8
    assert int(records.samples.chain_lengths.sum()) == len(records.samples.addresses) or not len(records.samples)
    assert 8 * len(records.samples.addresses) <= len(data)


SAMPLE = st.tuples(st.integers(1, 1 << 22), st.integers(0, 1 << 62), st.lists(st.integers(1, 1 << 47), max_size=9))


@given(st.lists(st.one_of(SAMPLE, st.just(None)), max_size=20))
def test_what_is_written_is_what_is_read(written: list[tuple[int, int, list[int]] | None]) -> None:
    """Samples and losses in any order: each is there, with its own chain."""
    parts = [
        make_record(lib.PERF_RECORD_LOST, struct.pack("=QQ", 1, 2) + make_trailer(1))
        if one is None
        else make_sample(one[0], one[0], one[1], 0, 1, [USER, *one[2]])
        for one in written
    ]
    records = parse(*parts)
    samples = records.samples
    expected = [one for one in written if one is not None]
    read = [
        (pid, time, samples.addresses[start : start + length].tolist())
        for pid, time, start, length in zip(
            samples.pid.tolist(),
            samples.time.tolist(),
            samples.chain_starts.tolist(),
            samples.chain_lengths.tolist(),
            strict=True,
        )
    ]
    assert read == expected
    lost: tuple[Record, ...] = tuple(Lost(2) for one in written if one is None)
    assert records.others == lost

"""The files in which a cgroup's use of block devices is kept."""

from __future__ import annotations

from omn_kernel.cgroup_io import parse_blkio, parse_io_stat


def test_io_stat_is_by_device_and_by_name() -> None:
    """A device alone on its line did nothing; the cost model's words and shares are no counters."""
    content = (
        b"8:0 rbytes=1459200 wbytes=314773504 rios=192 wios=353 dbytes=0 dios=0\n"
        b"253:0 rbytes=4096 wbytes=0 rios=1 wios=0 dbytes=0 dios=0 cost.vrate=100.00 cost.usage=7\n"
        b"7:1 \n7:2\n"
    )
    assert parse_io_stat(content) == {
        "8:0": {"rbytes": 1459200, "wbytes": 314773504, "rios": 192, "wios": 353, "dbytes": 0, "dios": 0},
        "253:0": {"rbytes": 4096, "wbytes": 0, "rios": 1, "wios": 0, "dbytes": 0, "dios": 0, "cost.usage": 7},
    }
    assert parse_io_stat(b"") == {}


def test_blkio_is_by_device_and_by_way() -> None:
    """The total of all devices is no device."""
    content = b"7:0 Read 8388608\n7:0 Write 0\n7:0 Sync 8388608\n7:0 Async 0\n7:0 Discard 0\n7:0 Total 8388608\n"
    ways = {"Read": 8388608, "Write": 0, "Sync": 8388608, "Async": 0, "Discard": 0, "Total": 8388608}
    assert parse_blkio(content + b"8:0 Read 1\nTotal 8388609\n") == {"7:0": ways, "8:0": {"Read": 1}}
    assert parse_blkio(b"Total 0\n") == {}

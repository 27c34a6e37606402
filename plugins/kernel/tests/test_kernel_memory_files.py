"""smaps, smaps_rollup, numa_maps and slabinfo, as kernels wrote them."""

from __future__ import annotations

from pathlib import Path

from omn_kernel.procfs.memory import (
    parse_numa_maps,
    parse_slabinfo,
    parse_smaps,
    parse_smaps_rollup,
    parse_smaps_total,
)

ROLLUP = b"""55d0-7ffd ---p 00000000 00:00 0                          [rollup]
Rss:                1776 kB
Pss:                 407 kB
Pss_Anon:            112 kB
Shared_Clean:       1616 kB
Private_Clean:        48 kB
Private_Dirty:       112 kB
Swap:                  0 kB
"""

OLD_ROLLUP = b"""55d0-7ffd ---p 00000000 00:00 0                          [rollup]
Rss:                1776 kB
Pss:                 407 kB
"""

SMAPS = rb"""00400000-00452000 r-xp 00000000 08:02 173521      /usr/bin/dbus daemon: 4 kB
Size:                328 kB
KernelPageSize:        4 kB
Rss:                 200 kB
Pss:                 100 kB
Private_Clean:         8 kB
Private_Dirty:         4 kB
THPeligible:    0
ProtectionKey:         0
VmFlags: rd ex mr mw me dw
7f0000000000-7f0000021000 rw-p 00000000 00:00 0
Size:                132 kB
Rss:                  44 kB
Pss:                  44 kB
Private_Clean:         0 kB
Private_Dirty:        44 kB
VmFlags: rd wr mr mw me ac
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
Size:                  4 kB
Rss:                   0 kB
Pss:                   0 kB
Private_Clean:         0 kB
Private_Dirty:         0 kB
VmFlags: ex
"""


def test_rollup_is_bytes_by_the_kernels_names() -> None:
    """Every amount is there, in bytes; the line of addresses is none."""
    amounts = parse_smaps_rollup(ROLLUP)
    assert amounts[b"Rss"] == 1776 * 1024
    assert amounts[b"Private_Dirty"] == 112 * 1024
    assert len(amounts) == 7


def test_rollup_lacks_what_an_older_kernel_does_not_write() -> None:
    """An amount that is not written is absent, not zero."""
    assert b"Pss_Anon" not in parse_smaps_rollup(OLD_ROLLUP)


def test_rollup_of_an_ended_process_is_empty() -> None:
    """A zombie's file holds nothing, and so does the answer."""
    assert parse_smaps_rollup(b"") == {}


def test_mappings_have_their_names_and_amounts() -> None:
    """A file whose name ends as an amount does is a name, and the mapping after it is not lost."""
    first, second, third = parse_smaps(SMAPS)
    assert first.name == b"/usr/bin/dbus daemon: 4 kB"
    assert (first.start, first.end, first.permissions) == (0x400000, 0x452000, b"r-xp")
    assert first.amounts[b"Rss"] == 200 * 1024
    assert second.name == b""
    assert (third.name, third.amounts[b"Rss"]) == (b"[vsyscall]", 0)


def test_mappings_add_up_to_the_total() -> None:
    """What is added over the whole file is what its mappings hold."""
    total = parse_smaps_total(SMAPS)
    mappings = list(parse_smaps(SMAPS))
    for name in (b"Rss", b"Pss", b"Private_Dirty", b"Size"):
        assert total[name] == sum(mapping.amounts[name] for mapping in mappings)
    assert total[b"Rss"] == 244 * 1024


def test_own_mappings_are_read_whole() -> None:
    """This process's own file gives every mapping of /proc/self/maps."""
    content = Path("/proc/self/smaps").read_bytes()
    assert len(list(parse_smaps(content))) == content.count(b"VmFlags:")


def test_numa_maps_add_up_by_node_with_each_mappings_page_size() -> None:
    """Pages of two megabytes count as such; a node that a mapping does not name gets nothing from it."""
    content = (
        b"00400000 default file=/usr/bin/N0=9\\040x mapped=3 N0=1 N1=2 kernelpagesize_kB=4\n"
        b"7f00000000 prefer:1 anon=2 dirty=2 N1=2 kernelpagesize_kB=2048\n"
        b"7ffc000000 default stack\n"
    )
    assert parse_numa_maps(content) == {0: 4096, 1: 2 * 4096 + 2 * 2048 * 1024}


SLABINFO = b"""slabinfo - version: 2.1
# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables <limit> ...
nf_conntrack         210    225    256   15    1 : tunables    0    0    0 : slabdata     15     15      0
odd name: 3 here      10     20     64   64    1 : tunables    0    0    0 : slabdata      2      3      0
kmalloc-8k            28     32   8192    4    8 : tunables    0    0    0 : slabdata      8      8      0
"""


def test_slabinfo_reads_every_cache_and_names_with_spaces() -> None:
    """Fields are counted from the end of a name, so that its spaces shift none."""
    conntrack, odd, large = parse_slabinfo(SLABINFO)
    assert (conntrack.name, conntrack.active_objects, conntrack.objects, conntrack.slabs) == (
        b"nf_conntrack",
        210,
        225,
        15,
    )
    assert (odd.name, odd.active_objects, odd.object_bytes, odd.slabs) == (b"odd name: 3 here", 10, 64, 3)
    assert (large.pages_per_slab, large.slabs) == (8, 8)

"""What /proc/<pid>/{smaps_rollup,smaps,numa_maps} and /proc/slabinfo hold. Pure functions from bytes; see proc(5)."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

_KIB = 1024


def parse_smaps_rollup(content: bytes) -> dict[bytes, int]:
    """Parse every amount of smaps_rollup, in bytes, by the kernel's name for it. A field it lacks is absent."""
    amounts: dict[bytes, int] = {}
    for line in content.split(b"\n")[1:]:
        name, _, rest = line.partition(b":")
        if rest.endswith(b" kB"):
            amounts[name] = int(rest[:-3]) * _KIB
    return amounts


def parse_smaps_total(content: bytes) -> dict[bytes, int]:
    """Add up every amount of smaps, in bytes, by the kernel's name for it."""
    totals: dict[bytes, int] = {}
    for line in content.split(b"\n"):
        name, _, rest = line.partition(b":")
        # A mapping's own line may end so too, in the name of its file: it holds a space before its first colon.
        if rest.endswith(b" kB") and b" " not in name:
            totals[name] = totals.get(name, 0) + int(rest[:-3]) * _KIB
    return totals


@attrs.frozen
class Mapping:
    r"""One mapping of smaps: where it starts, what may be done with it, what it maps, and its amounts in bytes.

    `name` is the file, or the kernel's bracketed word ([heap]), empty for anonymous memory without a name. The kernel
    writes a newline in a file's name as \012.
    """

    start: int
    end: int
    permissions: bytes
    name: bytes
    amounts: dict[bytes, int]


def parse_smaps(content: bytes) -> Iterator[Mapping]:
    """Parse every mapping of smaps, in the order of addresses."""
    head: list[bytes] | None = None
    amounts: dict[bytes, int] = {}
    for line in content.split(b"\n"):
        # A field is named with a capital letter, an address is written in lower case.
        if line[:1].isupper():
            name, _, rest = line.partition(b":")
            if rest.endswith(b" kB"):
                amounts[name] = int(rest[:-3]) * _KIB
        elif line:
            if head is not None:
                yield _make_mapping(head, amounts)
            head, amounts = line.split(None, 5), {}
    if head is not None:
        yield _make_mapping(head, amounts)


def _make_mapping(head: list[bytes], amounts: dict[bytes, int]) -> Mapping:
    start, _, end = head[0].partition(b"-")
    return Mapping(int(start, 16), int(end, 16), head[1], head[5] if len(head) > 5 else b"", amounts)


def parse_numa_maps(content: bytes) -> dict[int, int]:
    """Add up the bytes of every mapping of numa_maps on each memory node (`N<node>=<pages>` times its page size)."""
    nodes: dict[int, int] = {}
    for line in content.split(b"\n"):
        pages: list[tuple[int, int]] = []
        page_bytes = 0
        # A file's name has its spaces escaped, so that a word is a field; the address and the policy come first.
        for word in line.split(b" ")[2:]:
            name, _, value = word.partition(b"=")
            if name[:1] == b"N" and name[1:].isdigit():
                pages.append((int(name[1:]), int(value)))
            elif name == b"kernelpagesize_kB":
                page_bytes = int(value) * _KIB
        for node, count in pages:
            nodes[node] = nodes.get(node, 0) + count * page_bytes
    return nodes


@attrs.frozen
class SlabCache:
    """One line of /proc/slabinfo: objects in use and in all, the size of one, and the slabs that hold them."""

    name: bytes
    active_objects: int
    objects: int
    object_bytes: int
    pages_per_slab: int
    slabs: int


def parse_slabinfo(content: bytes) -> list[SlabCache]:
    """Parse /proc/slabinfo (version 2). A cache's name may hold spaces: its fields are counted from their end."""
    caches = []
    for line in content.split(b"\n"):
        front, tunables, back = line.partition(b" : tunables ")
        if not tunables or line[:1] == b"#":
            continue
        name, active, objects, size, _, pages = front.rsplit(None, 5)
        slabs = back.rpartition(b"slabdata")[2].split()
        caches.append(SlabCache(name.strip(), int(active), int(objects), int(size), int(pages), int(slabs[1])))
    return caches

"""What stands where in a process's memory: /proc/<pid>/maps, see proc_pid_maps(5)."""

from __future__ import annotations

import attrs

from omn_kernel.polled import read_file

_DELETED = " (deleted)"


@attrs.frozen(repr=False)
class Mapping:
    """An executable range of addresses, and the bytes of which file stand there.

    `path` is as the kernel spells it: empty for anonymous memory, bracketed for what is no file. `inode`, `device` and
    `build_id` name the file itself, None where the record did not say. `mapped_ns` is when it was mapped,
    CLOCK_MONOTONIC, None where nobody knows.
    """

    start: int
    end: int
    offset: int = 0
    path: str = ""
    inode: int | None = None
    build_id: str | None = None
    device: tuple[int, int] | None = None
    mapped_ns: int | None = attrs.field(default=None, eq=False)

    @property
    def place(self) -> tuple[int, int, int, str]:
        """Where it stands, and what the kernel calls what stands there, whoever told of it."""
        return self.start, self.end, self.offset, self.path

    @property
    def is_anonymous(self) -> bool:
        """Whether no file stands behind it. perf records spell such memory `//anon`."""
        return self.path in ("", "//anon") or self.path.startswith("[anon:")

    @property
    def is_file(self) -> bool:
        """Whether a file stands behind it."""
        return self.path.startswith("/") and self.path != "//anon"

    @property
    def file_path(self) -> str:
        """The path without the kernel's word that it was deleted."""
        return self.path.removesuffix(_DELETED)


def read_mappings(sysroot: str, pid: int) -> tuple[Mapping, ...]:
    """Read what a process has mapped now; nothing of one that is gone, or closed to this user."""
    try:
        return parse_mappings(read_file(sysroot, f"/proc/{pid}/maps"))
    except (OSError, ValueError):
        return ()


def parse_mappings(content: bytes) -> tuple[Mapping, ...]:
    """Parse the executable lines of a maps file. Newlines in paths are written there as octal escapes.

    Raises ValueError for a line that is none.
    """
    mappings = []
    for line in content.split(b"\n"):
        if not line.startswith(b"x", line.find(b" ") + 3):  # most lines are of memory for data
            continue
        fields = line.split(None, 5)
        if len(fields) < 5:
            continue
        start, _, end = fields[0].partition(b"-")
        major, _, minor = fields[3].partition(b":")
        path = fields[5].decode("utf-8", "surrogateescape").replace("\\012", "\n") if len(fields) > 5 else ""
        mappings.append(
            Mapping(
                start=int(start, 16),
                end=int(end, 16),
                offset=int(fields[2], 16),
                path=path,
                inode=int(fields[4]) or None,
                device=(int(major, 16), int(minor, 16)) if int(fields[4]) else None,
            )
        )
    return tuple(mappings)

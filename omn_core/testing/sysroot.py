"""A folder that stands in for `/`: the /proc and /sys that a test wants its reader to see (`OMN_SYSROOT`)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Self


class Sysroot:
    """A tree of files under one folder. Paths are given as they are on a machine, with or without the first slash."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder

    def __str__(self) -> str:
        return str(self.folder)

    def path(self, path: str) -> Path:
        """Return where a path of the machine lies."""
        return self.folder / path.lstrip("/")

    def write(self, path: str, content: str | bytes) -> Self:
        """Write a file in place, its folders made: a reader that holds it open reads the new content, as in procfs."""
        place = self.path(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        with open(place, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        return self

    def link(self, path: str, target: str) -> Self:
        """Make a symbolic link, such as the descriptors of /proc/<pid>/fd are; the target need not be there."""
        place = self.path(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to(target)
        return self

    def remove(self, path: str) -> Self:
        """Remove a file, or a folder with everything in it: a process that ended, a cpu that went."""
        place = self.path(path)
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink()
        return self

    def copy(self, captured: Path, path: str = "") -> Self:
        """Lay a captured tree over a path."""
        shutil.copytree(captured, self.path(path), dirs_exist_ok=True, symlinks=True)
        return self

    def write_process(
        self,
        pid: int,
        *,
        comm: bytes = b"program",
        state: str = "S",
        ppid: int = 1,
        utime: int = 0,
        stime: int = 0,
        threads: int = 1,
        start_ticks: int = 100,
        tid: int | None = None,
    ) -> Self:
        """Write /proc/<pid>/stat, or that of one of its threads, as Linux prints it: 52 fields (proc(5)).

        Fields that are not named here are zero.
        """
        fields = ["0"] * 50
        for number, value in ((3, state), (4, ppid), (14, utime), (15, stime), (20, threads), (22, start_ticks)):
            fields[number - 3] = str(value)
        path = f"proc/{pid}/stat" if tid is None else f"proc/{pid}/task/{tid}/stat"
        return self.write(path, b"%d (%s) %s\n" % (tid or pid, comm, " ".join(fields).encode()))

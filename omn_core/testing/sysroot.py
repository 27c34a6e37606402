"""A folder that stands in for `/`: the /proc and /sys that a test wants its reader to see (`OMN_SYSROOT`)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
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
        """Remove a file, or a folder with everything in it: a process that ended, a cpu that went.

        A reader that holds a file open reads nothing of it any more, as procfs has nothing of a process that ended.
        """
        place = self.path(path)
        if place.is_dir() and not place.is_symlink():
            for file in place.rglob("*"):
                if file.is_file() and not file.is_symlink():
                    os.truncate(file, 0)
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

    def write_block_device(
        self,
        name: str,
        number: str,
        *,
        whole: str | None = None,
        stands_on: Sequence[str] = (),
        backing_file: str | None = None,
        is_hidden: bool = False,
        is_accounted: bool = True,
        in_flight: tuple[int, int] = (0, 0),
    ) -> Self:
        """Lay a block device out as Linux does under /sys: its folder, and the links by its name and by `major:minor`.

        A partition lies in the folder of its `whole` device. Without `is_accounted` the queue's iostats is 0.
        """
        spelled = name.replace("/", "!")
        inside = spelled if whole is None else f"{whole.replace('/', '!')}/{spelled}"
        folder = f"sys/devices/virtual/block/{inside}"
        files = {"dev": f"{number}\n", "size": "2048\n", "inflight": f"{in_flight[0]:8d} {in_flight[1]:8d}\n"}
        if whole is None:
            self.path(f"{folder}/mq").mkdir(parents=True, exist_ok=True)
            files |= {"hidden": f"{int(is_hidden)}\n", "queue/iostats": f"{int(is_accounted)}\n"}
        else:
            files["partition"] = "1\n"
        if backing_file is not None:
            files["loop/backing_file"] = f"{backing_file}\n"
        for file, content in files.items():
            self.write(f"{folder}/{file}", content)
        for below in stands_on:
            self.path(f"{folder}/slaves").mkdir(parents=True, exist_ok=True)
            self.link(f"{folder}/slaves/{below.replace('/', '!')}", f"../../{below.replace('/', '!')}")
        for link in (f"sys/class/block/{spelled}", f"sys/dev/block/{number}"):
            self.path(link).parent.mkdir(parents=True, exist_ok=True)
            self.link(link, f"../../devices/virtual/block/{inside}")
        return self

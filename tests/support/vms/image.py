"""The first file system of a guest: busybox, this interpreter, what is installed beside it, and the tests' own files.

Everything stands in the image at the path it has here, so that a virtual environment works there as it does here.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Self

from compiled import compile_c

from vms.kernels import Unreachable

PORTABILITY = Path(__file__).parents[2] / "portability"
"""The folder whose `inside` and `guest` are packed, under /portability."""

_FOLDERS = ("proc", "sys", "dev", "tmp", "run", "root", "bin", "sbin", "etc", "disk", "usr/bin", "usr/sbin")
_USERS = b"root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/tmp:/bin/sh\n"
_GROUPS = b"root:x:0:\nnogroup:x:65534:\n"

_LEFT_OUT = re.compile(
    r"test|tests|idlelib|lib2to3|tkinter|turtledemo|ensurepip|pydoc_data|distutils|config-3.*|pip|pip-.*|hypothesis|_?tkinter.*"
    r"|mypy|mypyc|.*__mypyc.*|grimp|ruff|setuptools|pkg_resources|.*\.opt-[12]\.pyc|.*\.(a|h|pyi)"
)
"""Names of files and folders that no guest needs: some 200 MB, which every boot would copy."""


class Archive:
    """A cpio archive of the kernel's own kind (newc), written file by file. Folders are made as they are needed."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("wb")
        self._names: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._write("TRAILER!!!", 0, b"", 0)
        self._file.close()

    def add(self, path: Path | str, mode: int, content: bytes = b"", changed_s: int = 0) -> None:
        """Add a file, folder or link, and the folders above it; what is there already stays as it is."""
        name = str(path).strip("/")
        if not name or name in self._names:
            return
        self.add(os.path.dirname(name), stat.S_IFDIR | 0o755)
        self._names.add(name)
        self._write(name, mode, content, changed_s)

    def add_folder(self, path: Path | str) -> None:
        """Add an empty folder that everybody may enter."""
        self.add(path, stat.S_IFDIR | 0o755)

    def add_text(self, path: Path | str, content: bytes, mode: int = 0o644) -> None:
        """Add a file whose content is at hand."""
        self.add(path, stat.S_IFREG | mode, content)

    def add_link(self, path: Path | str, to: str) -> None:
        """Add a symbolic link."""
        self.add(path, stat.S_IFLNK | 0o777, to.encode())

    def add_file(self, path: Path | str, source: Path) -> None:
        """Add a file as it stands here, readable by everybody; its time stays, by which Python trusts compiled code."""
        status = source.stat()
        readable = status.st_mode & 0o111 | 0o644
        self.add(path, stat.S_IFREG | readable, source.read_bytes(), int(status.st_mtime))

    def add_tree(self, path: Path, source: Path) -> None:
        """Add a folder with everything below it that a guest needs."""
        self.add_folder(path)
        for entry in sorted(source.iterdir()):
            if _LEFT_OUT.fullmatch(entry.name):
                continue
            if entry.is_dir():
                self.add_tree(path / entry.name, entry)
            elif entry.is_file():
                self.add_file(path / entry.name, entry)

    def _write(self, name: str, mode: int, content: bytes, changed_s: int) -> None:
        spelled = name.encode() + b"\0"
        fields = (len(self._names), mode, 0, 0, 1, changed_s, len(content), 0, 0, 0, 0, len(spelled), 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + spelled
        for part in (head, content):
            self._file.write(part + bytes(-len(part) % 4))


def build_image(path: Path) -> None:
    """Write the image that every kernel boots. Raises Unreachable where busybox is missing."""
    busybox = shutil.which("busybox")
    if busybox is None:
        raise Unreachable("busybox is not installed here")
    packages = Path(sysconfig.get_path("purelib"))
    if not (packages / "omn_core").is_dir():
        raise Unreachable(
            "omn is not installed beside this interpreter, or installed editable: see `tox -e portability`"
        )
    with Archive(path) as archive:
        for folder in _FOLDERS:
            archive.add_folder(folder)
        archive.add_file("bin/busybox", Path(busybox))
        archive.add_link("bin/sh", "busybox")
        archive.add_file("init", PORTABILITY / "inside" / "init.sh")
        archive.add_text("etc/passwd", _USERS)
        archive.add_text("etc/group", _GROUPS)
        # A link would be another interpreter: one outside its virtual environment.
        archive.add_text("portability/python", f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n'.encode(), 0o755)
        for folder in ("inside", "guest"):
            archive.add_tree(Path("/portability") / folder, PORTABILITY / folder)
        _add_programs(archive, path.parent)
        _add_catalog(archive, path.with_name("cache"))
        _add_interpreter(archive)
        archive.add_tree(packages, packages)
        _add_libraries(archive, [Path(sys.executable), *_list_extensions(packages)])


def _add_programs(archive: Archive, folder: Path) -> None:
    """Add a program of known calls, built with frame pointers and without: a guest has no compiler."""
    source = (PORTABILITY / "inside" / "calls.c").read_text()
    # Optimised, a function that calls nobody has no frame even where frame pointers are kept.
    for name, flags in (("keeping", ("-O0", "-fno-omit-frame-pointer")), ("omitting", ("-O2", "-fomit-frame-pointer"))):
        archive.add_file(f"portability/programs/{name}", compile_c(folder, name, source, *flags))


def _add_catalog(archive: Archive, folder: Path) -> None:
    """Add the catalog as omn keeps it once it was read: reading it from YAML takes a guest ten seconds."""
    command = [
        sys.executable,
        "-P",
        "-c",
        "import omn_core.catalog.load as l, omn_core.plugins as p; l.load_catalog(p.discover())",
    ]
    subprocess.run(command, env={**os.environ, "OMN_CACHE_DIR": str(folder)}, check=True)
    archive.add_tree(Path("/portability/cache"), folder)


def _add_interpreter(archive: Archive) -> None:
    """Add the interpreter, its standard library, and the virtual environment that stands on it."""
    program = Path(sys.executable)
    archive.add_file(program.resolve(), program.resolve())
    archive.add_link(program, str(program.resolve()))
    for path in (Path(sys.prefix) / "pyvenv.cfg", program.parent / "omn"):
        if path.is_file():
            archive.add_file(path, path)
    library = Path(sysconfig.get_path("stdlib"))
    for entry in sorted(library.iterdir()):
        if entry.name != "site-packages" and not _LEFT_OUT.fullmatch(entry.name):
            if entry.is_dir():
                archive.add_tree(entry, entry)
            else:
                archive.add_file(entry, entry)
    _add_libraries(archive, (library / "lib-dynload").glob("*.so"))


def _list_extensions(packages: Path) -> list[Path]:
    """Return every native library of the environment."""
    found = packages.rglob("*.so*")
    return [path for path in found if not any(_LEFT_OUT.fullmatch(part) for part in path.relative_to(packages).parts)]


def _add_libraries(archive: Archive, programs: Iterable[Path]) -> None:
    """Add the shared libraries of programs, each at the path that the dynamic loader looks for it at."""
    done = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        found = re.match(r"\s+(?:\S+ => )?(/\S+) \(0x", line)
        if found is not None:
            archive.add_file(os.path.normpath(found[1]), Path(found[1]).resolve())

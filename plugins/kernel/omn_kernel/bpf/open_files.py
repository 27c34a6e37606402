"""The files behind descriptors, found in the kernel while a call names one, and named by their paths.

A file is told by its directory entry, its inode and its device together: the kernel uses the memory of an entry and the
number of an inode again. Its path is read once, when it is first seen, from its own name up to the root of the mounts.
"""

from __future__ import annotations

import stat
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from omn_core.api import Column, Names, ResolvedRequest
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.columns import make_named_column
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import ANY, Map
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.record_arguments import reads_records
from omn_kernel.bpf.registers import R0, R1, R2, R3, R4, R8, R9, Register
from omn_kernel.btf.fields import get_fields

MOST_FILES = 1 << 12
"""Of how many files the paths are kept, where a collector does not say otherwise."""
_FILE = [("dentry", "u8"), ("inode", "u8"), ("device", "u4"), ("mode", "u4")]
_KEY = np.dtype(_FILE)
_File: TypeAlias = tuple[int, int, int, int]
_MOST_PARTS = 24
_TEXT_BYTES, _NAME_BYTES = 1 << 9, 1 << 8
_PATH = np.dtype([("used", "u4"), ("is_cut", "u2"), ("is_rootless", "u2"), ("text", f"V{_TEXT_BYTES + _NAME_BYTES}")])
"""A path's parts from its last to its first, each with its zero byte: `used` bytes of them."""
_WALK = np.dtype([("dentry", "u8"), ("mount", "u8")])
_ANONYMOUS = 0x09041934
"""ANON_INODE_FS_MAGIC of <linux/magic.h>: descriptors that no file stands behind, such as an eventfd."""
_MINOR_BITS = 20
_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "file",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
}


class OpenFiles:
    """The files that an answer shows, by path (`file`), by what a descriptor refers to (`descriptor`), by device.

    Raises MachineRefused where the kernel makes no such map. `lost` counts files whose path found no room: they are
    named by device and inode. Where records are read there are none, since the kernel's types lead to them.
    """

    def __init__(self, resolved: ResolvedRequest, most: int = MOST_FILES) -> None:
        self.most = most
        had = () if reads_records(resolved) else ("file", "descriptor", "dev")
        shown = [key for key in had if key in resolved.entry.keys and resolved.shows(key)]
        self.shows_path = "file" in shown
        self.shows_kind = "descriptor" in shown
        self.layout = _FILE if shown else []
        self._paths = Map(MapType.HASH, "paths", _KEY, _PATH, most)
        self._empty = Map(MapType.ARRAY, "no_path", np.uint32, _PATH, 1)
        self.lost = LostCounter()
        self._read: dict[_File, str] = {}

    def close(self) -> None:
        """Let go of the maps."""
        self._paths.close()
        self._empty.close()
        self.lost.close()

    def write(self, program: KernelAssembly, record: Record, task: Register) -> None:
        """Emit what sets a record's fields of `layout` to the file behind the descriptor in R9, of the task that runs.

        They stay as they are where there is no such descriptor. R8 and R9 hold nothing after it, nor do R0 to R5.
        `task` is R6 or R7. Raises FieldMissing.
        """
        if not self.layout:
            return
        end = program.make_label("file")
        self._write_file(program, task, end)
        program.read_field(R8, R9, "file", "f_inode", is_copied=True)
        program.read_field(R1, R8, "inode", "i_mode", is_copied=True)
        program.set(record, "mode", R1)
        program.read_field(R1, R8, "inode", "i_ino", is_copied=True)
        program.set(record, "inode", R1)
        program.read_field(R1, R9, "file", "f_path.dentry", is_copied=True)
        program.set(record, "dentry", R1)
        program.read_field(R8, R8, "inode", "i_sb", is_copied=True)
        program.read_field(R1, R8, "super_block", "s_dev", is_copied=True)
        program.set(record, "device", R1)
        program.read_field(R8, R8, "super_block", "s_magic", is_copied=True)
        self._skip_unnamed(program, record, end)
        self._write_path(program, record, end, has_mount=True)
        program.label(end)

    def write_inode(self, program: KernelAssembly, record: Record) -> None:
        """Emit what sets a record's fields of `layout` to the file whose inode R8 points to, by one of its names.

        No call reaches it, so that its path begins at its file system's own root. R8 and R9 hold nothing after it, nor
        do R0 to R5. Raises FieldMissing.
        """
        if not self.layout:
            return
        end = program.make_label("file")
        program.read_field(R1, R8, "inode", "i_mode", is_copied=True)
        program.set(record, "mode", R1)
        program.read_field(R1, R8, "inode", "i_ino", is_copied=True)
        program.set(record, "inode", R1)
        program.read_field(R1, R8, "inode", "i_sb", is_copied=True)
        program.read_field(R1, R1, "super_block", "s_dev", is_copied=True)
        program.set(record, "device", R1)
        if not self.shows_path:
            program.label(end)
            return
        program.read_field(R9, R8, "inode", "i_dentry.first", is_copied=True)
        program.jump_if(R9, "==", 0, end)
        (alias,) = get_fields(program.types, "dentry", _find_alias(program))
        program.compute(R9, "-=", alias.offset)
        program.set(record, "dentry", R9)
        self._write_path(program, record, end, has_mount=False)
        program.label(end)

    def _write_file(self, program: KernelAssembly, task: Register, otherwise: str) -> None:
        """Emit what sets R9, the number of a descriptor, to its struct file."""
        program.compute(R9, "<<=", 32)
        program.compute(R9, ">>=", 32)
        program.read_field(R8, task, "task_struct", "files")
        program.read_field(R8, R8, "files_struct", "fdt", is_copied=True)
        program.read_field(R1, R8, "fdtable", "max_fds", is_copied=True)
        program.jump_if(R9, ">=", R1, otherwise)
        program.read_field(R8, R8, "fdtable", "fd", is_copied=True)
        program.compute(R9, "<<=", 3)
        program.compute(R8, "+=", R9)
        program.copy_memory(R9, R8)
        program.jump_if(R9, "==", 0, otherwise)

    def _skip_unnamed(self, program: KernelAssembly, record: Record, otherwise: str) -> None:
        """Emit what goes on for a file that has a path, or is told by its name (R8 has its file system's number)."""
        named = program.make_label("named")
        program.jump_if(R8, "==", _ANONYMOUS, named)
        if not self.shows_path:
            for field in ("dentry", "inode", "device"):
                program.set(record, field, 0)
            program.jump(otherwise)
            program.label(named)
            return
        program.get(R1, record, "mode")
        program.compute(R1, "&=", 0o170000)
        program.jump_if(R1, "==", stat.S_IFSOCK, otherwise)
        with program.when(R1, "==", stat.S_IFIFO):
            program.get(R8, record, "dentry")
            program.read_field(R1, R8, "dentry", "d_parent", is_copied=True)
            program.jump_if(R1, "==", R8, otherwise)
        program.label(named)

    def _write_path(self, program: KernelAssembly, record: Record, end: str, *, has_mount: bool) -> None:
        """Emit what reads a file's path where none is kept of it; R9 has its struct file, where `has_mount`."""
        key = Record(record.base, _KEY, record.locate("dentry")[0])
        program.look_up(self._paths, key)
        program.jump_if(R0, "!=", 0, end)
        program.load_map(R1, self._paths)
        program.point_at(R2, key)
        program.point_into(R3, self._empty)
        program.move(R4, ANY)
        program.call("map_update_elem")
        program.look_up(self._paths, key)
        with program.when(R0, "==", 0):
            self.lost.emit_count(program)
            program.jump(end)
        program.move(R8, R0)
        walk = program.reserve(_WALK)
        program.get(R1, record, "dentry")
        program.set(walk, "dentry", R1)
        if has_mount:
            program.read_field(R1, R9, "file", "f_path.mnt", is_copied=True)
            (mount,) = get_fields(program.types, "mount", "mnt")
            program.compute(R1, "-=", mount.offset)
            program.set(walk, "mount", R1)
        self._write_walk(program, walk, Record(R8, _PATH), has_mount=has_mount)

    def _write_walk(self, program: KernelAssembly, walk: Record, path: Record, *, has_mount: bool) -> None:
        """Emit the walk from an entry to the root, of the mounts as d_path goes or of its file system.

        R9 counts its steps. What the path has used stands in the map alone: the verifier keeps ways through the steps
        apart that differ in a number on the stack, and has more of them to follow with every step.
        """
        step, inside, onward, done = (program.make_label(name) for name in ("step", "inside", "onward", "done"))
        program.move(R9, 0)
        program.label(step)
        if has_mount:
            program.get(R1, walk, "mount")
            program.read_field(R1, R1, "mount", "mnt.mnt_root", is_copied=True)
            program.get(R2, walk, "dentry")
            program.jump_if(R1, "!=", R2, inside)
            self._write_crossing(program, walk, done)
            program.jump(onward)
            program.label(inside)
        else:
            program.get(R1, walk, "dentry")
            program.read_field(R1, R1, "dentry", "d_parent", is_copied=True)
            program.get(R2, walk, "dentry")
            program.jump_if(R1, "==", R2, done)
        self._write_part(program, walk, path, done)
        program.label(onward)
        program.compute(R9, "+=", 1)
        program.jump_if(R9, "<", _MOST_PARTS, step)
        program.set(path, "is_cut", 1)
        program.label(done)

    def _write_crossing(self, program: KernelAssembly, walk: Record, done: str) -> None:
        """Emit what goes from a mount's root to where it is mounted; the last one is mounted on itself."""
        program.get(R1, walk, "mount")
        program.read_field(R1, R1, "mount", "mnt_mountpoint", is_copied=True)
        program.set(walk, "dentry", R1)
        program.get(R1, walk, "mount")
        program.read_field(R1, R1, "mount", "mnt_parent", is_copied=True)
        program.get(R2, walk, "mount")
        program.jump_if(R1, "==", R2, done)
        program.set(walk, "mount", R1)

    def _write_part(self, program: KernelAssembly, walk: Record, path: Record, done: str) -> None:
        """Emit what copies an entry's name behind those below it, and goes to its parent."""
        program.get(R1, walk, "dentry")
        program.read_field(R3, R1, "dentry", "d_name.name", is_copied=True)
        program.point_at(R1, path, "text")
        program.get(R2, path, "used")
        program.compute(R2, "&=", _TEXT_BYTES - 1)
        program.compute(R1, "+=", R2)
        program.move(R2, _NAME_BYTES)
        program.call("probe_read_kernel_str")
        program.jump_if(R0, "s<=", 0, done)
        program.get(R1, path, "used")
        program.compute(R1, "+=", R0)
        program.set(path, "used", R1)
        program.get(R1, walk, "dentry")
        program.read_field(R1, R1, "dentry", "d_parent", is_copied=True)
        program.get(R2, walk, "dentry")
        program.set(walk, "dentry", R1)
        with program.when(R1, "==", R2):
            program.set(path, "is_rootless", 1)
            program.jump(done)
        program.get(R1, path, "used")
        with program.when(R1, ">=", _TEXT_BYTES):
            program.set(path, "is_cut", 1)
            program.jump(done)

    def read(self) -> None:
        """Read the paths that are there, to name files by when the maps are gone."""
        kept = self._paths.read()
        for file, path in zip(kept.keys.tolist(), kept.values, strict=True):
            self._read[file] = _parse_path(path)

    def make_columns(self, records: npt.NDArray[Any], names: Names) -> dict[str, Column]:
        """Make the keys of records that are shown; absent where a call named no descriptor that there is."""
        if not self.layout:
            return {}
        told = np.empty(len(records), _KEY)
        for field in _KEY.names or ():
            told[field] = records[field]
        different, codes = np.unique(told, return_inverse=True)
        files = different.tolist()
        made = {}
        if self.shows_path:
            made["file"] = make_named_column(codes, lambda code: self._name(files[code]), names)
        if self.shows_kind:
            made["descriptor"] = make_named_column(codes, lambda code: self._name_kind(files[code]), names)
        return made

    def _name(self, file: _File) -> str | None:
        kind = self._name_kind(file)
        if kind is None:
            return None
        path = self._read.get(file)
        if path is not None:
            return f"anon_inode:{path}" if path.startswith("[") else path
        _, inode, device, _ = file
        if kind in ("socket", "pipe"):
            return f"{kind}:[{inode}]"
        return f"{device >> _MINOR_BITS}:{device & ((1 << _MINOR_BITS) - 1)}:{inode}"

    def _name_kind(self, file: _File) -> str | None:
        mode = file[3]
        path = self._read.get(file)
        if path is not None and path.startswith("["):
            return path.strip("[]")
        return _KINDS.get(stat.S_IFMT(mode), "anon_inode") if mode else None


def _find_alias(program: KernelAssembly) -> str:
    """Return where an entry hangs in the list of its inode's names."""
    return "d_alias" if program.has_field("dentry", "d_alias") else "d_u.d_alias"


def _parse_path(kept: Any) -> str:
    """Parse a path's parts. What has no root, such as an eventfd, is its name alone; what was cut begins with `...`."""
    parts = bytes(kept["text"])[: int(kept["used"])].split(b"\0")[:-1]
    text = b"/".join(reversed(parts)).decode("utf-8", "backslashreplace")
    if kept["is_rootless"]:
        return text
    return f".../{text}" if kept["is_cut"] else f"/{text}"

"""Where a cgroup stands: cgroup v1, v2, or both side by side with each controller on one of them. See cgroups(7)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import attrs

from omn_core.api import MachineRefused, RequestError
from omn_kernel.mounts import Mount, read_mounts
from omn_kernel.polled import place, read_file

UNIFIED = "unified"
"""The name under which cgroup2 stands among the hierarchies; v1 hierarchies go by a controller."""

_INITIAL_NAMESPACE = "cgroup:[4026531835]"
"""PROC_CGROUP_INIT_INO of <linux/proc_ns.h>: the namespace in which every path is the kernel's own."""


@attrs.frozen(repr=False)
class CgroupPlace:
    """One cgroup, and its folder in each hierarchy that has it.

    `path` is its path below the root of the hierarchies. `unified` is its cgroup2 folder and `controllers` what that
    serves (cgroup.controllers); `legacy` maps each v1 controller to its folder. Folders are as opened, a test's
    sysroot included.
    """

    path: str
    unified: str | None = None
    controllers: frozenset[str] = frozenset()
    legacy: Mapping[str, str] = attrs.field(factory=dict)

    def find_folder(self, hierarchy: str) -> str | None:
        """Find its folder on cgroup2 (`unified`) or under a v1 controller, None where that does not have the cgroup."""
        return self.unified if hierarchy == UNIFIED else self.legacy.get(hierarchy)

    @property
    def hierarchies(self) -> list[str]:
        """The hierarchies that have it, the v1 controllers first."""
        return sorted(self.legacy) + ([UNIFIED] if self.unified is not None else [])

    def describe(self) -> dict[str, object]:
        """Say where it stands, for a result."""
        return {"cgroup": self.path, "hierarchies": self.hierarchies}


def parse_cgroup(content: bytes) -> dict[str, str]:
    """Parse /proc/<pid>/cgroup: each v1 controller (or `name=` hierarchy), and `unified`, to the path in it."""
    paths: dict[str, str] = {}
    for line in content.decode("utf-8", "surrogateescape").split("\n"):
        number, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if colon:
            for controller in (UNIFIED,) if number == "0" else controllers.split(","):
                paths[controller] = path
    return paths


def find_hierarchies(mounts: tuple[Mount, ...]) -> dict[str, Mount]:
    """Find the mount of each v1 controller, and of cgroup2 as `unified`. The first mount of each counts."""
    found: dict[str, Mount] = {}
    for mount in mounts:
        if mount.kind == "cgroup2":
            found.setdefault(UNIFIED, mount)
        elif mount.kind == "cgroup":
            for option in mount.options:
                if option not in ("rw", "ro", "xattr", "noprefix", "clone_children") and "=" not in option:
                    found.setdefault(option, mount)
    return found


def is_in_cgroup_namespace(sysroot: str) -> bool:
    """Tell whether this process sees cgroup paths from inside a namespace of its own. Unreadable counts as no."""
    try:
        return os.readlink(place(sysroot, "/proc/self/ns/cgroup")) != _INITIAL_NAMESPACE
    except OSError:
        return False


def bind_cgroup_path(path: str, sysroot: str) -> CgroupPlace:
    """Find a cgroup by the path a person gives.

    A path under the mount of a hierarchy, by itself or through links, names the cgroup in that hierarchy alone; any
    other is below the root of every hierarchy, and the cgroup is found in those that have it. Raises MachineRefused
    where none does, RequestError for a path that steps back.
    """
    if ".." in path.split("/"):
        raise RequestError(f"the cgroup path {path!r} steps back with '..'", "write the path without it")
    hierarchies = find_hierarchies(read_mounts(sysroot))
    if not hierarchies:
        raise MachineRefused("no cgroup hierarchy is mounted here")
    for spelling in (path, _follow_links(path, sysroot)):
        named, relative = _split_mount(spelling, hierarchies)
        folders = {name: folder for name, mount in named.items() if (folder := find_folder(relative, mount, sysroot))}
        if folders:
            return make_place(relative, folders)
    raise _refusal(path, sysroot)


def make_place(path: str, folders: Mapping[str, str]) -> CgroupPlace:
    """Make a place of a cgroup's folder in each hierarchy that has it, `unified` among them."""
    unified = folders.get(UNIFIED)
    legacy = {name: folder for name, folder in folders.items() if name != UNIFIED}
    return CgroupPlace(path, unified, _read_controllers(unified), legacy)


def _follow_links(path: str, sysroot: str) -> str:
    """Follow links, such as /sys/fs/cgroup/cpu is one to cpu,cpuacct. A path that is no file's stays as it is."""
    if not path.startswith("/"):
        return path
    real = os.path.realpath(place(sysroot, path))
    root = os.path.realpath(sysroot).rstrip("/")
    return real.removeprefix(root) or "/"


def _split_mount(path: str, hierarchies: Mapping[str, Mount]) -> tuple[Mapping[str, Mount], str]:
    """Return the hierarchies a path is about, and the path below their root."""
    path = "/" + "/".join(part for part in path.split("/") if part not in ("", "."))
    under = [mount for mount in hierarchies.values() if path == mount.point or path.startswith(mount.point + "/")]
    if not under:
        return hierarchies, path
    point = max((mount.point for mount in under), key=len)
    named = {name: mount for name, mount in hierarchies.items() if mount.point == point}
    return named, path[len(point) :] or "/"


def find_folder(relative: str, mount: Mount, sysroot: str) -> str | None:
    """Find the folder of a cgroup by its path below what is mounted, None where it is not there."""
    folder = place(sysroot, mount.point) + ("" if relative == "/" else relative)
    mark = "cgroup.controllers" if mount.kind == "cgroup2" else "cgroup.procs"
    # The mark keeps a plain folder, or the tmpfs that v1 mounts stand on, from being taken for a cgroup. The root of
    # cgroup2 has it too.
    return folder if os.path.exists(f"{folder}/{mark}") else None


def find_below_mount(path: str, mount: Mount) -> str | None:
    """Find where a path of /proc/<pid>/cgroup lies below what is mounted, None where it is outside of that.

    The mount may show a part of the hierarchy alone, as in a container; from inside a namespace a path may step out.
    """
    root = mount.root.rstrip("/")
    if path.startswith("/..") or (root and path != root and not path.startswith(root + "/")):
        return None
    return path[len(root) :].rstrip("/") or "/"


def _read_controllers(folder: str | None) -> frozenset[str]:
    if folder is None:
        return frozenset()
    try:
        return frozenset(read_file("/", f"{folder}/cgroup.controllers").decode().split())
    except OSError:
        return frozenset()


def _refusal(path: str, sysroot: str) -> MachineRefused:
    if is_in_cgroup_namespace(sysroot):
        return MachineRefused(
            f"no cgroup {path!r} is visible here, and inside a cgroup namespace the machine's other cgroups are not",
            "run omn outside the container, in the machine's own cgroup namespace",
        )
    return MachineRefused(f"no cgroup hierarchy here has {path!r}", "ls /sys/fs/cgroup shows those there are")


def read_own_unified_folder(sysroot: str) -> str | None:
    """Read which cgroup2 folder this process is in, None where cgroup2 is not mounted or does not show it."""
    mount = find_hierarchies(read_mounts(sysroot)).get(UNIFIED)
    path = parse_cgroup(read_file(sysroot, "/proc/self/cgroup")).get(UNIFIED)
    if mount is None or path is None:
        return None
    folder = place(sysroot, mount.point) + ("" if path == "/" else path)
    return folder if os.path.isdir(folder) else place(sysroot, mount.point)


def iter_nearest_folders(folder: str, top: str) -> Iterator[str]:
    """Iterate over a cgroup2 folder, those above it up to `top`, then every folder below `top`, nearest first."""
    seen = set()
    here = folder
    while here.startswith(top):
        seen.add(here)
        yield here
        if here == top:
            break
        here = here.rpartition("/")[0]
    for path, names, _ in os.walk(top):
        names.sort()
        if path not in seen:
            yield path

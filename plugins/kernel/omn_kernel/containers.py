"""The cgroup of a container, by the process that its runtime names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

import attrs

from omn_core.api import BoundTarget, MachineRefused, ProbeContext, Target
from omn_kernel.cgroup import (
    UNIFIED,
    CgroupPlace,
    find_below_mount,
    find_folder,
    find_hierarchies,
    is_in_cgroup_namespace,
    make_place,
    parse_cgroup,
)
from omn_kernel.container_runtimes import Container, get_container
from omn_kernel.mounts import read_mounts
from omn_kernel.polled import read_file


@attrs.frozen
class ContainerCgroup:
    """A container, and where its cgroup stands."""

    container: Container
    place: CgroupPlace

    def explain(self) -> tuple[str, ...]:
        """Say who named it, what that cost, and who could not say."""
        one = self.container
        cost = f"{one.cpu_ns / 1e6:.3g} ms of cpu, a helper's, which is in no figure"
        found = f"container {one.asked} is cgroup {self.place.path}, says {one.runtime}; asking took {cost}"
        return (found, *(f"container runtime {other}" for other in one.others))


def find_container_cgroup(container: Container, sysroot: str) -> ContainerCgroup:
    """Find the cgroup of a container in every hierarchy that gives it one of its own.

    Each of docker, podman and nerdctl names the cgroup after the container's id, and the process may be in one below
    it. A hierarchy in which no part of the path is so named (cgroup2 on a hybrid machine may be one) has no cgroup of
    the container's. Raises MachineRefused for a process that is not here, and for one whose cgroups are not the
    container's.
    """
    paths = {
        hierarchy: own
        for hierarchy, path in _read_paths(container, sysroot).items()
        if (own := find_own_path(path, container.identifier)) is not None
    }
    if not paths:
        raise MachineRefused(
            f"process {container.pid}, which {container.runtime} names for container {container.asked!r}, is in no "
            "cgroup that is the container's own",
            "was it started without one, or does the runtime serve another machine?",
        )
    return ContainerCgroup(container, _make_place(container, paths, sysroot))


def _read_paths(container: Container, sysroot: str) -> dict[str, str]:
    try:
        return parse_cgroup(read_file(sysroot, f"/proc/{container.pid}/cgroup"))
    except OSError as error:
        raise MachineRefused(
            f"process {container.pid}, which {container.runtime} names for container {container.asked!r}, is not on "
            f"this machine: {error.strerror}",
            "does the runtime serve another machine?",
        ) from None


def find_own_path(path: str, identifier: str) -> str | None:
    """Find the part of a cgroup's path that ends with the container's own, None where no part is named after its id.

    Docker names it `ID` or `docker-ID.scope`, podman `libpod-ID.scope`; what runs inside may have made others below.
    """
    own = re.compile(rf"(.*[^0-9A-Za-z])?{re.escape(identifier)}([^0-9A-Za-z].*)?", re.DOTALL)
    parts = path.split("/")
    for length, part in enumerate(parts, 1):
        if own.fullmatch(part):
            return "/".join(parts[:length])
    return None


def _make_place(container: Container, paths: Mapping[str, str], sysroot: str) -> CgroupPlace:
    """Find the folders. The path that is shown is that of most hierarchies, of cgroup2 where it is one of several."""
    folders: dict[str, str] = {}
    shown: list[str] = []
    for hierarchy, mount in find_hierarchies(read_mounts(sysroot)).items():
        below = find_below_mount(paths[hierarchy], mount) if hierarchy in paths else None
        folder = None if below is None else find_folder(below, mount, sysroot)
        if below is not None and folder is not None:
            folders[hierarchy] = folder
            shown.insert(0 if hierarchy == UNIFIED else len(shown), below)
    if not folders:
        named = ", ".join(sorted(set(paths.values())))
        raise MachineRefused(f"the cgroup of container {container.asked!r}, {named}, is in no hierarchy mounted here")
    return make_place(Counter(shown).most_common(1)[0][0], folders)


def bind_container(target: Target, context: ProbeContext) -> BoundTarget:
    """Find a container's cgroup by asking its runtime; the target is that cgroup from here on.

    Raises MachineRefused inside a cgroup namespace, before anyone is asked, and with a sentence for each way of not
    being a container's name; RequestError for what can be none.
    """
    if is_in_cgroup_namespace(context.sysroot):
        raise MachineRefused(
            f"container {target.value!r} has no cgroup that can be told from in here: omn is inside a cgroup "
            "namespace, and the kernel shows it no path from the root",
            "run omn outside the container, in the machine's own cgroup namespace",
        )
    found = find_container_cgroup(get_container(target.value), context.sysroot)
    return BoundTarget(
        Target("cgroup", found.place.path),
        target.scope,
        place=found.place,
        described={**found.place.describe(), **found.container.describe()},
        facts=found.explain(),
    )

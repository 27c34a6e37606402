"""Cgroups as perf events name them. See PERF_FLAG_PID_CGROUP in perf_event_open(2)."""

from __future__ import annotations

from omn_kernel.cgroup import UNIFIED, CgroupPlace

_CONTROLLER = "perf_event"


def find_cgroup_folder(place: CgroupPlace) -> str | None:
    """Find the folder by which perf events name a cgroup: its perf_event hierarchy's, else that of cgroup2.

    Where no version 1 hierarchy has the controller it is on in every cgroup of version 2. None where the cgroup stands
    in neither.
    """
    return place.find_folder(_CONTROLLER) or place.find_folder(UNIFIED)

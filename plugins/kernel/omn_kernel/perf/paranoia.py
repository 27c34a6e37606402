"""What the kernel's setting for perf events says. See perf_event_open(2), /proc/sys/kernel/perf_event_paranoid."""

from __future__ import annotations

from omn_kernel.polled import read_file


def describe_paranoia() -> str:
    """Say what the setting is, for a sentence."""
    try:
        level = read_file("/", "/proc/sys/kernel/perf_event_paranoid").decode().strip()
    except OSError:
        return "perf events are restricted"
    return f"kernel.perf_event_paranoid is {level}"

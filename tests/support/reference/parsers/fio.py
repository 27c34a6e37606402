"""fio: the account a job keeps of its own transfers."""

from __future__ import annotations

import json

from reference.parsing import Figures, UnreadableError


def parse_fio(text: str) -> Figures:
    """Read `--output-format=json` of one job: what it moved, and where fio kept it what its device was busy with.

    `read.bytes`, `read.requests`, `write.bytes`, `write.requests`; of `disk_util`, which fio reads of
    /sys/block/*/stat, `device.busy_ns` (its share of the job's run time) and `device.request_ns` (`in_queue`).
    """
    start = text.find("{")
    try:
        document = json.loads(text[start:])
        (job,) = document["jobs"]
    except (ValueError, KeyError) as error:
        raise UnreadableError(f"no jobs of fio: {error}") from error
    figures = {
        f"{way}.{name}": job[way][field]
        for way in ("read", "write")
        for name, field in (("bytes", "io_bytes"), ("requests", "total_ios"))
    }
    for device in document.get("disk_util", []):
        figures["device.busy_ns"] = device["util"] / 100 * job["job_runtime"] * 1e6
        figures["device.request_ns"] = device["in_queue"] * 1e6
    return figures

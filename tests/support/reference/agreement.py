"""Whether two figures agree, and how far apart they are."""

from __future__ import annotations

import math

from reference.model import Tolerance


def compute_agreement(omn: float, tool: float, tolerance: Tolerance) -> bool:
    """Whether omn's figure is within the tolerance of the tool's.

    Powers of two are compared for figures above zero alone: nothing else is in a bucket.
    """
    if tolerance.exact:
        return omn == tool
    if tolerance.log2_buckets is not None:
        if omn <= 0 or tool <= 0:
            return False
        return abs(math.floor(math.log2(omn)) - math.floor(math.log2(tool))) <= tolerance.log2_buckets
    allowed = max((tolerance.relative or 0) * abs(tool), tolerance.absolute or 0)
    difference = omn - tool
    if tolerance.side is not None and (difference < 0) is (tolerance.side == "above") and difference != 0:
        return False
    return abs(difference) <= allowed

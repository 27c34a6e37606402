"""Whether this kernel has what the family alone asks for."""

from __future__ import annotations

from omn_core.api import AVAILABLE, Need, Probe, ProbeContext
from omn_proc.connector import Connector, Unanswered, explain


def probe_process_events(_need: Need, _context: ProbeContext) -> Probe:
    """Answer `proc_events`: the kernel confirms a listener to its process connector, which is taken back at once.

    It is asked of the running kernel whatever stands for `/`: a socket is no file.
    """
    try:
        Connector().close()
    except (OSError, Unanswered) as error:
        return explain(error)
    return AVAILABLE

"""Sensor chips, asked for by the name that their driver gives them."""

from __future__ import annotations

from omn_core.api import AVAILABLE, Need, Probe, ProbeContext, State
from omn_kernel.hwmon import HWMON, list_chips


def probe_hwmon(need: Need, context: ProbeContext) -> Probe:
    """Answer `hwmon:coretemp`: whether some chip of that name is there."""
    names = list(dict.fromkeys(chip.name for chip in list_chips(context.sysroot)))
    if need.argument in names:
        return AVAILABLE
    if not names:
        return Probe(State.MISSING, f"this machine shows no sensor chips ({HWMON}/hwmon0 is not there)")
    return Probe(State.MISSING, f"no chip here is called {need.argument}; there are {', '.join(names)}")

"""The calls that Python has no spelling for, compiled against the kernel's headers."""

from omn_kernel.native.building import refuse_stale

refuse_stale()

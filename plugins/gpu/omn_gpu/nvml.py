"""NVIDIA's management library, called through the vendor's own binding: opened once, its errors made one kind."""

from __future__ import annotations

import ctypes
import functools
import importlib
from types import ModuleType
from typing import Any

import attrs

from omn_core.api import MachineRefused, Probe, State
from omn_gpu.refusal import DeviceRefusal

LIBRARY = "libnvidia-ml.so.1"

_SUCCESS = 0  # the binding raises it for a list of processes' shares that is empty
_NOT_SUPPORTED = 3
_NO_PERMISSION = 4
_NOT_FOUND = 6
_DRIVER_NOT_LOADED = 9
_FUNCTION_NOT_FOUND = 13
_GPU_IS_LOST = 15
_LIB_RM_VERSION_MISMATCH = 18
_NO_DATA = 21
_GPU_NOT_FOUND = 28


@attrs.define(eq=False)
class NvmlError(DeviceRefusal):
    """A call that the library refused: its code (nvmlReturn_t), and the library's words for it."""

    code: int
    text: str

    def __str__(self) -> str:
        return f"NVML: {self.text}"

    @property
    def is_unsupported(self) -> bool:
        """Whether the device, or this version of the library, has no such thing."""
        return self.code in (_NOT_SUPPORTED, _FUNCTION_NOT_FOUND)

    @property
    def is_forbidden(self) -> bool:
        """Whether it is closed to this user."""
        return self.code == _NO_PERMISSION

    @property
    def is_loss_of_device(self) -> bool:
        """Whether the device fell off its bus or was taken away."""
        return self.code in (_GPU_IS_LOST, _GPU_NOT_FOUND)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to be told at this moment."""
        return self.code in (_SUCCESS, _NOT_FOUND, _NO_DATA)


class Library:
    """The library, initialised."""

    def __init__(self, binding: ModuleType) -> None:
        self._binding = binding

    def call(self, function: str, *arguments: Any) -> Any:
        """Call a function of the binding by its name. Raises NvmlError."""
        try:
            return getattr(self._binding, function)(*arguments)
        except self._binding.NVMLError as error:
            raise NvmlError(error.value, str(error)) from None
        except self._binding.NVMLLibraryMismatchError:
            raise NvmlError(_FUNCTION_NOT_FOUND, "Function Not Found") from None


@functools.cache
def _initialise() -> Library:
    """Load and initialise the library for the rest of this process: without a persistent driver that takes seconds."""
    ctypes.CDLL(LIBRARY)
    library = Library(importlib.import_module("pynvml"))
    library.call("nvmlInit")
    return library


def ask_library() -> Library | Probe:
    """Return the library, or the answer that says why there is none."""
    try:
        return _initialise()
    except OSError as error:
        # The binding, which takes longer to import than all of a listing, is not asked without a library.
        if "cannot open shared object" in str(error):
            return Probe(State.MISSING, f"{LIBRARY} is not here", "it comes with NVIDIA's driver")
        return Probe(State.MISSING, f"{LIBRARY} cannot be loaded: {error}")
    except NvmlError as error:
        return _explain(error)


def _explain(error: NvmlError) -> Probe:
    if error.code == _DRIVER_NOT_LOADED:
        return Probe(State.MISSING, f"{LIBRARY} is here, and NVIDIA's driver is not loaded ({error})")
    if error.code == _LIB_RM_VERSION_MISMATCH:
        reason = f"{LIBRARY} and the driver that is loaded are of different versions ({error})"
        return Probe(State.MISSING, reason, "load the driver that was installed with it, or restart the machine")
    if error.is_forbidden:
        return Probe(State.RESTRICTED, f"NVIDIA's driver is closed to this user ({error})", "run omn as root")
    return Probe(State.UNKNOWN, f"{LIBRARY} does not start ({error})")


def get_library() -> Library:
    """Return the library. Raises MachineRefused with what the probe says."""
    found = ask_library()
    if isinstance(found, Library):
        return found
    raise MachineRefused(found.reason or "", found.remedy)

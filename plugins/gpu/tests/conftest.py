"""The fixtures of the family's tests."""

from __future__ import annotations

from nvml_stub import bind, drive, stub, stub_library

__all__ = ["bind", "drive", "stub", "stub_library"]

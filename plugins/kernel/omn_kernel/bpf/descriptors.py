"""What a descriptor stands for in the kernel: a map, a program, a link."""

from __future__ import annotations

import os
from typing import Self


class Descriptor:
    """Something of the kernel's that is there as long as its descriptor, or something else, holds it."""

    def __init__(self, descriptor: int = -1) -> None:
        self.descriptor = descriptor

    def close(self) -> None:
        """Let go of it, once however often this is asked."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

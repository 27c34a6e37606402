"""What an address is called, and who says so."""

from __future__ import annotations

import os

import attrs

from omn_kernel.symbols.index import Addresses, Numbers

ANONYMOUS, UNKNOWN, KERNEL = "[anon]", "[unknown]", "[kernel]"


@attrs.frozen(repr=False)
class Symbol:
    """One function, or one address that has no name.

    `name` is spelt in its language, `mangled` as the linker spelt it where that differs. `path` is the object's:
    a file's path, or what the kernel calls memory that is no file; None where the address is in nothing known.
    `start` is where the function starts, counted as the object's symbols are (the kernel's and a perf map's are
    addresses of memory); without a name, the address itself. `named_by` is None exactly when `name` is.
    """

    name: str | None
    path: str | None
    start: int
    named_by: str | None = None
    mangled: str | None = None
    build_id: str | None = None
    is_kernel: bool = False

    @property
    def label(self) -> str:
        """What a stack shows: the name, or the object and the address in it."""
        if self.name is not None:
            return self.name
        if self.path is None:
            return UNKNOWN
        if self.path.startswith("["):
            return self.path
        return f"{os.path.basename(self.path)}+{self.start:#x}"


@attrs.frozen(eq=False, repr=False)
class Frames:
    """The answer for some addresses: each one's symbol, a number in `Symboliser.symbols`, and its offset from there."""

    symbol: Numbers
    offset: Addresses

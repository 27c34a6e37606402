"""Names as their languages spell them: Rust (legacy and v0) and Itanium C++, by `multi-demangle`.

A name that no demangler reads whole stays as the linker spelt it. What the linker appended to it (`@plt`, a version)
stays behind it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from multi_demangle import demangle_symbols  # type: ignore[import-untyped]

_MANGLED = ("_Z", "__Z", "_R", "___Z")
_NOT_UNICODE = re.compile("[\ud800-\udfff]")
_MOST_CHARACTERS = 4096
_MOST_SPELT = 1 << 16
# References back into a name can spell a megabyte in two hundred characters: few at a time, and an end to such names.
_CHUNK = 64
_MOST_OVERLONG = 64


def demangle(names: Sequence[str]) -> list[str]:
    """Spell names in their languages. What is not mangled, too long, or not read whole stays as it is."""
    answers = list(names)
    chosen = [number for number, name in enumerate(names) if _may_be_read(name)]
    overlong = 0
    for at in range(0, len(chosen), _CHUNK):
        numbers = chosen[at : at + _CHUNK]
        parts = [names[number].partition("@") for number in numbers]
        for number, part, spelt in zip(numbers, parts, demangle_symbols([part[0] for part in parts]), strict=True):
            if len(spelt) > _MOST_SPELT:
                overlong += 1
            elif spelt:
                answers[number] = spelt + part[1] + part[2]
        if overlong > _MOST_OVERLONG:
            break
    return answers


def _may_be_read(name: str) -> bool:
    is_mangled = name.startswith(_MANGLED) and len(name) <= _MOST_CHARACTERS
    return is_mangled and (name.isascii() or not _NOT_UNICODE.search(name))

"""The methods that attrs writes for its classes: compiled once, and kept for the starts that follow.

attrs writes each class's methods as Python, and has them compiled as the class is made. Of the two hundred classes that
a run begins with, that is a sixth of the time until its window opens. What was compiled is kept under the very text it
was compiled from, for one build of the interpreter, so that what is found is what compiling would have made.
"""

from __future__ import annotations

import contextlib
import marshal
import re
import sys
from collections.abc import Iterator
from importlib.util import MAGIC_NUMBER
from types import CodeType

from omn_core.cache import read_cached, write_cached

_MOST_BYTES = 4 << 20
"""Past this, what other commands and versions kept goes: all of omn's classes are a third of it."""

_SALT = re.compile(r"(?<=hash\(\()\s+-?\d+(?=,)")
"""The number by which a class's hashes differ from another's: drawn anew by each process, and any does."""

_Kept = dict[tuple[str, str], bytes]
"""What attrs calls a source, and its text without the salt -> the code, marshalled."""


@contextlib.contextmanager
def keep_methods() -> Iterator[None]:
    """Have what attrs compiles taken from the cache while this lasts, and what was not there kept in it after.

    attrs looks `compile` up in its own module before the builtins; one that no longer does compiles as it always did.
    """
    import attr._make

    names = vars(attr._make)
    kept = _read_kept()
    made: dict[tuple[str, str], CodeType] = {}

    def take_or_compile(text: str, name: str, mode: str) -> CodeType:
        key = (name, _SALT.sub("", text))
        found = kept.get(key)
        if found is not None:
            code: CodeType = marshal.loads(found)  # noqa: S302  # as `_read_kept`
            return code
        made[key] = compile(text, name, mode)
        return made[key]

    names["compile"] = take_or_compile
    try:
        yield
    finally:
        names.pop("compile", None)
        if made:
            _write_kept({key: marshal.dumps(code) for key, code in made.items()})


def _name_file() -> str:
    return f"methods-{sys.implementation.cache_tag}-{MAGIC_NUMBER.hex()}-{sys.flags.optimize}.marshal"


def _read_kept() -> _Kept:
    content = read_cached(_name_file())
    try:
        # As any compiled module beside its source: this user alone could have written it.
        kept = {} if content is None else marshal.loads(content)  # noqa: S302
    except (ValueError, TypeError, EOFError):
        return {}  # a cache that does not read back whole is one nobody wrote
    return kept if isinstance(kept, dict) else {}


def _write_kept(made: _Kept) -> None:
    content = marshal.dumps(_read_kept() | made)
    write_cached(_name_file(), content if len(content) <= _MOST_BYTES else marshal.dumps(made))

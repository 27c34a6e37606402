"""Which code a frame is, so that it may be told to be the same in another run.

A symbol is, and so is an offset into a file whose build id both sides recorded. Anything else names nothing that
another process holds.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping

import attrs

RECOVERED = " [recovered]"
"""Stands at the end of the label of a frame that was inferred, not walked to."""

_VERSION = re.compile(r"\.so(\.\d+)+$")
KERNEL, VDSO, ANONYMOUS = "[kernel]", "[vdso]", "[anon]"


@attrs.frozen
class FrameKey:
    """A frame as a run shows it: its label without its mark, its object, and whether it has a name."""

    label: str
    object: str | None
    is_named: bool


@attrs.frozen
class Code:
    """One piece of code, the same on both sides: a name, or an offset in a build; `place` tells objects apart."""

    name: str
    place: str


@attrs.frozen
class Lack:
    """What a frame lacks to be known as the same code on the other side, and what would mend it."""

    what: str
    remedy: str | None = None


NO_STACK = Lack("a stack", None)
_NO_MAPPING = Lack("a mapping: nothing known stood at the address")
_GENERATED = Lack("a name: code that was generated as it ran", "have the runtime write /tmp/perf-PID.map")
_HIDDEN = Lack("a name: the kernel's addresses were hidden", "profile where kernel.kptr_restrict is 0, or as root")
_OTHER_BUILD = Lack("a name, in a file that is another build on the other side", "profile what has its symbols")
_NO_BUILD = Lack("a name, in a file whose build is not known to be the other side's", "profile what has its symbols")
_NAMELESS = Lack("a name")
ONE_SIDED = Lack("the other side: no sample there has their name", None)

Builds = Mapping[str, frozenset[str]]
"""The build ids that each object had in the runs of one side."""


class Objects:
    """Which objects of two sides are the same file: by their build, their path, their name, or as the only ones left.

    `renamed` are the two that were taken for one because no other was left.
    """

    def __init__(self, files: tuple[set[str], set[str]], builds: tuple[Builds, Builds]) -> None:
        self._builds = builds
        self._same: tuple[dict[str, str], dict[str, str]] = {}, {}
        for find in (self._find_build, lambda _, path: path, lambda _, path: _find_stem(path), lambda _, __: ""):
            self.renamed = self._pair(files, find)

    def _pair(self, files: tuple[set[str], set[str]], find: Callable[[int, str], str | None]) -> tuple[str, str] | None:
        """Pair what is left and alone in having something on its side. Returns the last pair."""
        pair = None
        groups: tuple[dict[str, list[str]], dict[str, list[str]]] = {}, {}
        for side in (0, 1):
            for path in sorted(files[side] - self._same[side].keys()):
                found = find(side, path)
                if found is not None:
                    groups[side].setdefault(found, []).append(path)
        for found, of_a in groups[0].items():
            of_b = groups[1].get(found, [])
            if len(of_a) == len(of_b) == 1:
                pair = of_a[0], of_b[0]
                self._same[0][pair[0]], self._same[1][pair[1]] = pair[1], pair[0]
        return pair

    def _find_build(self, side: int, path: str) -> str | None:
        found = self._builds[side].get(path, frozenset())
        return next(iter(found)) if len(found) == 1 else None

    def get_place(self, side: int, path: str | None) -> str:
        """Return what an object is called here: the same of both sides where it is the same file."""
        if path is None or not _is_file(path):
            return path or ""
        other = self._same[side].get(path)
        if other is None:
            return f"{'AB'[side]}:{path}"
        return path if side == 0 else other

    def find_other(self, side: int, path: str) -> str | None:
        """Find what the other side calls the file, None where it has none that is known to be it."""
        return self._same[side].get(path)

    def find_common_build(self, side: int, path: str) -> str | None:
        """Find the one build that an object had in every run of both sides, None where it had none or several."""
        other = self._same[side].get(path)
        mine = self._find_build(side, path)
        return mine if other is not None and mine == self._find_build(1 - side, other) else None

    def has_builds(self, side: int, path: str) -> bool:
        """Tell whether the builds of an object are known on both sides."""
        other = self._same[side].get(path)
        return bool(self._builds[side].get(path)) and other is not None and bool(self._builds[1 - side].get(other))


def _is_file(path: str | None) -> bool:
    return path is not None and not path.startswith("[")


def _find_stem(path: str) -> str:
    return _VERSION.sub(".so", os.path.basename(path.removesuffix(" (deleted)")))


class Identifier:
    """Says of every frame of two sides which code it is, or what it lacks to be known.

    `has_one_kernel` says that every run was under the same build of the kernel.
    """

    def __init__(
        self, a: Iterable[FrameKey], b: Iterable[FrameKey], builds: tuple[Builds, Builds], *, has_one_kernel: bool
    ) -> None:
        sides = [dict.fromkeys(a), dict.fromkeys(b)]
        files = [{key.object for key in keys if key.object is not None and _is_file(key.object)} for keys in sides]
        self.objects = Objects((files[0], files[1]), builds)
        self._has_one_kernel = has_one_kernel
        self._named: tuple[dict[str, set[bool]], dict[str, set[bool]]] = {}, {}
        for named, keys in zip(self._named, sides, strict=True):
            for key in keys:
                named.setdefault(key.object or "", set()).add(key.is_named)
        codes = [{key: self._identify(side, key) for key in keys} for side, keys in enumerate(sides)]
        held = [{code for code in of.values() if isinstance(code, Code)} for of in codes]
        self.codes: tuple[dict[FrameKey, Code | Lack], ...] = tuple(
            {
                key: code
                if isinstance(code, Lack) or code in held[1 - side] or self._is_there(side, key)
                else ONE_SIDED
                for key, code in of.items()
            }
            for side, of in enumerate(codes)
        )

    def _identify(self, side: int, key: FrameKey) -> Code | Lack:
        place = self.objects.get_place(side, key.object)
        if key.is_named:
            return Code(key.label, place)
        if key.object is None:
            return _NO_MAPPING
        if not _is_file(key.object):
            return {KERNEL: _HIDDEN, ANONYMOUS: _GENERATED}.get(key.object, _NAMELESS)
        if self.objects.find_common_build(side, key.object) is not None:
            return Code(f"{os.path.basename(place)}{_find_offset(key.label)}", place)
        return _OTHER_BUILD if self.objects.has_builds(side, key.object) else _NO_BUILD

    def _is_there(self, side: int, key: FrameKey) -> bool:
        """Tell whether the other side runs the same bytes and tells its code apart in the same way.

        That no sample there is of this code is then a measured zero. Where the other side has no names in a file, or
        none of its samples is in the file, it is not.
        """
        if key.object is None:
            return False
        if _is_file(key.object):
            if self.objects.find_common_build(side, key.object) is None:
                return False
            other = self.objects.find_other(side, key.object)
        else:
            if not (self._has_one_kernel and key.object in (KERNEL, VDSO)):
                return False
            other = key.object
        return self._named[1 - side].get(other or "") == {key.is_named}


def _find_offset(label: str) -> str:
    return label[label.rindex("+0x") :] if "+0x" in label else ""

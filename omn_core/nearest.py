"""The word that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable


def find_nearest(word: str, offered: Iterable[str]) -> str | None:
    """Return the offered word that is most like one that is not among them, None where none is like it."""
    import difflib  # for a word that nobody offers; nothing that is served needs it

    near = difflib.get_close_matches(word, list(offered), 1)
    return near[0] if near else None


def suggest(word: str, offered: Iterable[str], otherwise: str) -> str:
    """Return what would mend a word that is none of those offered: the nearest of them where one is near, then all."""
    near = find_nearest(word, offered)
    return otherwise if near is None else f"did you mean {near!r}? {otherwise}"

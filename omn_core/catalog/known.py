"""What this project's own distributions provide, for words whose plugin is not installed."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from omn_core.catalog.package_files import DATA, get_package_folder


@attrs.frozen(repr=False)
class Known:
    """Distribution -> kind of word (sources, formats, views, commands, methods) -> the words."""

    distributions: Mapping[str, Mapping[str, tuple[str, ...]]]

    def find(self, kind: str, word: str) -> tuple[str, ...]:
        """Return every distribution that provides a word of a kind, sorted; empty when none does."""
        return tuple(sorted(dist for dist, kinds in self.distributions.items() if word in kinds.get(kind, ())))

    def find_family(self, family: str) -> str | None:
        """Return the distribution that provides a family's sources, None for a family nobody here knows."""
        for dist, kinds in self.distributions.items():
            if any(source.partition(".")[0] == family for source in kinds.get("sources", ())):
                return dist
        return None

    def words(self, kind: str) -> tuple[str, ...]:
        """Return every known word of a kind."""
        return tuple(word for kinds in self.distributions.values() for word in kinds.get(kind, ()))


def read_known() -> Known:
    """Read the data file. It ships with the core, so nothing about it can be missing."""
    from omn_core.located import parse_yaml

    written = parse_yaml((get_package_folder(DATA) / "known.yaml").read_text()).value
    return Known({dist: {kind: tuple(words) for kind, words in kinds.items()} for dist, kinds in written.items()})

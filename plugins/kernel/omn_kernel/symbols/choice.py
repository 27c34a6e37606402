"""Where names may come from, by the word of `--symbols`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from omn_kernel.symbols.debuginfod import Debuginfod


@attrs.frozen(eq=False, repr=False)
class NameSources:
    """Whether names are looked for on this machine, and the servers that are asked for debug files, None for none."""

    is_local: bool = True
    servers: Debuginfod | None = None

    @property
    def cpu_ns(self) -> int:
        """What fetching cost omn."""
        return 0 if self.servers is None else self.servers.cpu_ns

    def count(self) -> dict[str, int]:
        """Return what servers gave, by name; nothing where none was to be asked."""
        asked = self.servers
        if asked is None:
            return {}
        return {
            "debug_files_fetched": asked.files,
            "debug_files_cached": asked.kept,
            "debug_files_lacking": asked.lacking,
            "debug_bytes_fetched": asked.taken_bytes,
        }

    def describe(self) -> tuple[str, ...]:
        """Say what servers gave, and what went wrong with them."""
        asked = self.servers
        if asked is None:
            return ()
        said = (
            f"of files without symbols {asked.files} were named by debuginfod and {asked.kept} by what it gave before; "
            f"it had none for {asked.lacking}"
        )
        return said, *(f"debuginfod: {fault}" for fault in asked.faults)


def choose_sources(word: str | None) -> NameSources:
    """Choose where names come from: this machine, unless a word says otherwise.

    Raises MachineRefused for `debuginfod` where no server is configured.
    """
    if word != "debuginfod":
        return NameSources(is_local=word != "none")
    from omn_kernel.symbols.debuginfod import Debuginfod, read_servers

    return NameSources(servers=Debuginfod(read_servers()))

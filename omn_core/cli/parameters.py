"""What options hold that are neither words nor numbers: durations, folders, files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omn_core.session.duration import parse_duration

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class DurationType(click.ParamType[int]):
    """A duration such as 100ms, 1.5s or 2m; a bare number is seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return nanoseconds."""
        try:
            return parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


DURATION = DurationType()


class FolderType(click.Path):
    """A folder's path, which is not empty: an unset variable of a shell would mean the current folder."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a Path."""
        if value == "":
            self.fail("an empty name is no folder", param, ctx)
        return super().convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        """Leave it to the shell, which knows folders."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="dir")]


FOLDER = FolderType()


def offer_files(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Leave a file's name to the shell."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]

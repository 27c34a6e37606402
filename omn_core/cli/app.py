"""The click application: subcommands by name from every plugin, and a source where no subcommand is named."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omn_core.cli.entry import FAILED, FAILED_AFTER, REFUSED
from omn_core.cli.streams import complain
from omn_core.errors import PLUGIN_FAULTS, OmnError, PluginError, Refused, RunFailed, Whose
from omn_core.model.style import TextStyle
from omn_core.plugins import Registry, discover

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from omn_core.model.catalog import Catalog
    from omn_core.resolve.probes import ProbeTable

MEASURE = "trace"
"""The subcommand that measures; the word is optional before a source."""

_ASK_NO_PROGRAM = frozenset({"catalog", "help", "list", "plugins"})
"""The core's commands that no program stands behind: what follows their `--` is a word, as click reads it."""


_LEAST_WIDTH = 40
_TERMINAL_ROWS = 30
"""A terminal is shown so many rows of a table; whoever reads a pipe or a file gets them all."""


class Application:
    """What every command of one invocation shares; each part is made when first asked for."""

    def __init__(self, registry: Registry, program: tuple[str, ...] | None) -> None:
        self.registry = registry
        self.program = program
        self.catalog_folder: Path | None = None
        self._partial: Catalog | None = None

    @cached_property
    def catalog(self) -> Catalog:
        """Every installed entry, or those of `--catalog DIR` or OMN_CATALOG_DIR."""
        return self._load_catalog(None)

    def get_catalog(self, asked: Collection[str]) -> Catalog:
        """Return a catalog that has these sources and families, as far as any has."""
        if "catalog" in self.__dict__:
            return self.catalog
        if self._partial is None or not all(map(self._partial.has, asked)):
            self._partial = self._load_catalog(asked)
        return self._partial

    def _load_catalog(self, asked: Collection[str] | None) -> Catalog:
        from omn_core.catalog.load import load_catalog

        named = os.environ.get("OMN_CATALOG_DIR")
        return load_catalog(self.registry, self.catalog_folder or (Path(named) if named else None), asked)

    @cached_property
    def probes(self) -> ProbeTable:
        """This machine's answers."""
        from omn_core.resolve.probes import ProbeTable

        return ProbeTable(self.registry)

    @cached_property
    def style(self) -> TextStyle:
        """How text is to look on standard output: as wide as the terminal, coloured only on one."""
        style = TextStyle()
        if not sys.stdout.isatty():
            return style
        # A terminal that nobody told its size has 0 columns.
        width = max(_LEAST_WIDTH, os.get_terminal_size(sys.stdout.fileno()).columns or style.width)
        is_dumb = os.environ.get("TERM", "dumb") == "dumb"
        return TextStyle(width, not (is_dumb or os.environ.get("NO_COLOR")), rows=_TERMINAL_ROWS)


class Commands(click.Group):
    """The subcommands, imported when they are invoked; `--help` prints their lines without importing any."""

    def __init__(self, registry: Registry) -> None:
        super().__init__("omn", help=_HELP, epilog=_EXAMPLES, no_args_is_help=True, invoke_without_command=False)
        self.registry = registry
        self.params.append(click.Option(["--version"], is_flag=True, help="Print the version and leave."))

    def list_commands(self, ctx: click.Context) -> list[str]:  # click's signature
        """Every subcommand's name, sorted."""
        return sorted(self.registry.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a subcommand. Raises PluginError when its plugin cannot give it."""
        row = self.registry.commands.get(cmd_name)
        if row is None:
            return None
        try:
            command = self.registry.load(row.reference)
        except PLUGIN_FAULTS as error:  # a guarded plugin call: importing what a row names runs the plugin's code
            raise PluginError(cmd_name, None, f"the command cannot be imported: {error}") from error
        if not isinstance(command, click.Command):
            raise PluginError(cmd_name, None, f"{row.reference} is {type(command).__name__}, no click command")
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Return the subcommands that go on from what was typed, and omn's own options, importing no subcommand."""
        from click.shell_completion import CompletionItem

        rows = [self.registry.commands[name] for name in self.list_commands(ctx)]
        items = [CompletionItem(row.name, help=row.meaning) for row in rows if row.name.startswith(incomplete)]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each subcommand's line from its row."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.registry.commands[name].meaning) for name in self.list_commands(ctx)])


_HELP = """Ask what a program or a machine is doing.

A source is measured by its name: `omn mem.rss -- ./server`. `omn list` shows every source, `omn help SOURCE` one.
"""

_EXAMPLES = """\b
Examples:
  omn mem.rss --interval 100ms -- ./server
  omn cpu.util --system --keys cpu -d 5s
  omn mem.faults -m count -e count --pid 4711 -d 10s
  omn -f session.yaml -o results/
"""


def run_command(arguments: list[str]) -> int:
    """Run one invocation, and render what it raises. Returns the exit code."""
    own, program = _split_program(arguments)
    try:
        registry = discover()
        commands = Commands(registry)
        application = Application(registry, program)
        if own and own[0] not in (*registry.commands, "--help", "--version"):
            own = [MEASURE, *_name_known(own, registry)]
        # Not `main`, which would end the process itself on a closed pipe.
        with commands.make_context("omn", own or ["--help"], obj=application) as context:
            outcome = commands.invoke(context)
        return outcome if isinstance(outcome, int) else 0
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.ClickException as error:
        return _say_usage(error)
    except click.Abort:
        return _say(FAILED)
    except OmnError as error:
        return render_error(error)


def _split_program(arguments: list[str]) -> tuple[list[str], tuple[str, ...] | None]:
    """Take the program apart from the options: everything after the first `--` is its own, untouched."""
    if "--" not in arguments or arguments[0] in _ASK_NO_PROGRAM:
        return arguments, None
    at = arguments.index("--")
    return arguments[:at], tuple(arguments[at + 1 :])


def _name_known(own: list[str], registry: Registry) -> list[str]:
    """Refuse a word that is another distribution's command before it is looked for among the sources."""
    if "." in own[0] or own[0].startswith("-"):
        return own
    from omn_core.catalog.known import read_known
    from omn_core.errors import NotCollected

    distributions = read_known().find("commands", own[0])
    if distributions and own[0] not in registry.commands:
        raise NotCollected(
            f"the command {own[0]!r} is not installed", f"install {' and '.join(distributions)} to have it"
        )
    return own


def render_error(error: OmnError) -> int:
    """Write an error to stderr, its remedy on a line of its own and the fixed sentence last. Returns its code."""
    reason = getattr(error, "reason", None) if isinstance(error, Refused) else str(error)
    complain(f"omn: {reason}")
    if isinstance(error, Refused):
        if error.remedy is not None:
            complain(f"     {error.remedy}")
        return _say(REFUSED) if error.whose is Whose.MACHINE else error.exit_code
    if isinstance(error, RunFailed):
        return _say(FAILED_AFTER if error.written else FAILED)
    return error.exit_code


def _say(sentence: str) -> int:
    complain(sentence)
    return 1


def _say_usage(error: click.ClickException) -> int:
    context = getattr(error, "ctx", None)
    complain(f"omn: {' '.join(error.format_message().split())}")  # click lists choices a line each
    if context is not None:
        complain(f"     '{context.command_path} --help' shows what there is")
    return 2


def get_application(context: click.Context) -> Application:
    """Return the invocation's application."""
    found: Any = context.obj
    assert isinstance(found, Application)
    return found

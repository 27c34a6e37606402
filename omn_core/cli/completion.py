"""`omn completion SHELL`: the script that completes omn's words in a shell, and the words that it asks for."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

import click
from click.shell_completion import CompletionItem, ShellComplete

from omn_core.cli.app import MEASURE, Application, Commands, get_application
from omn_core.cli.options import TARGETS

SHELLS = ("bash", "zsh", "fish")


@click.command(
    "completion",
    epilog="""\b
Examples:
  eval "$(omn completion bash)"                                     this shell
  omn completion bash > ~/.local/share/bash-completion/completions/omn
  omn completion zsh > ~/.zfunc/_omn                                a folder of fpath
  omn completion fish > ~/.config/fish/completions/omn.fish
""",
)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, /, shell: str) -> int:
    """Print the script that completes omn's words in SHELL: bash, zsh or fish.

    With the words of a command line after `--`, the last of them as far as it was typed, it prints what could stand
    there instead, a line each: `plain`, `file` or `dir`, the word and its meaning, tabs between. The scripts ask that.
    """
    application = get_application(context)
    if application.program is None:
        print((files("omn_core.cli") / "completions" / f"omn.{shell}").read_text(), end="")
        return 0
    for item in iter_items(application, list(application.program) or [""]):
        meaning = " ".join((item.help or "").split())
        print(f"{item.type}\t{item.value}\t{meaning}")
    return 0


def iter_items(application: Application, words: list[str]) -> Iterator[CompletionItem[str]]:
    """Iterate over what could stand in place of the last of a command line's words.

    The first word is a command or a source. Where only an option could stand, and nothing of it was typed, every
    option is offered that the source has a target for.
    """
    *before, incomplete = words
    commands = Commands(application.registry)
    shell = ShellComplete(commands, {"obj": application}, "omn", "")
    if not before:
        yield from shell.get_completions([], incomplete)
        yield from shell.get_completions([MEASURE], incomplete)
        return
    if before[0] not in application.registry.commands:
        before = [MEASURE, *before]
    found = shell.get_completions(list(before), incomplete)
    if not found and not incomplete:
        found = [*shell.get_completions(list(before), "-"), CompletionItem("--", help="the program stands after it")]
    unserved = _find_unserved(application, before)
    yield from (item for item in found if item.value not in unserved)


def _find_unserved(application: Application, words: list[str]) -> frozenset[str]:
    """Return the options of targets that the source among the words does not serve."""
    entries = [application.catalog.entries[word] for word in words[1:2] if word in application.catalog.entries]
    served = {kind for entry in entries for kind, reason in entry.targets.items() if reason is None}
    if "cgroup" in served:
        served.add("container")  # which is its cgroup
    return frozenset(f"--{kind}" for kind in TARGETS if entries and kind not in served)

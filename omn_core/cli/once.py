"""Options that are given once: a second one would drop the first without a word."""

from __future__ import annotations

from collections.abc import Iterator

import click

from omn_core.errors import RequestError


class OnceEach(click.Command):
    """A command none of whose options may be given twice, but those that repeat (`--emit`).

    click keeps the last one, so that `--pid 11 --pid 12` would measure 12 alone.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:  # click's signature
        """Parse as click does. Raises RequestError for an option that was given twice with a value."""
        if not ctx.resilient_parsing:  # while a line is completed it may say anything
            _, _, order = self.make_parser(ctx).parse_args(list(args))
            for option in _iter_again(order):
                flag = option.opts[-1]
                is_list = isinstance(option.metavar, str) and option.metavar.endswith(",...")
                remedy = f"{flag} takes several, with a comma between them" if is_list else "leave one of them out"
                raise RequestError(f"{flag} was given twice", remedy)
        return super().parse_args(ctx, args)


def _iter_again(order: list[click.Parameter]) -> Iterator[click.Option]:
    seen: set[str | None] = set()
    for parameter in order:
        if isinstance(parameter, click.Option) and not parameter.multiple and not parameter.is_flag:
            if parameter.name in seen:
                yield parameter
            seen.add(parameter.name)

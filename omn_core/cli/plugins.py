"""`omn plugins`: what is installed, what did not load and why, and the conformance kit on one of them."""

from __future__ import annotations

from typing import Any

import click

from omn_core.cli.app import Application, get_application
from omn_core.cli.offer import offer
from omn_core.cli.output import plain_format_option, write_plain
from omn_core.plugins import describe


@click.group(
    invoke_without_command=True,
    epilog="\b\nExamples:\n  omn plugins\n  omn plugins --format json\n  omn plugins check omn-mem\n",
)
@plain_format_option
@click.pass_context
def plugins(context: click.Context, /, format_name: str) -> int:
    """Show every installed plugin: its distribution, what it provides, and its state."""
    application = get_application(context)
    if context.invoked_subcommand is not None:
        return 0
    _ = application.catalog
    rows = [describe(record, application.registry) for record in application.registry.records]
    if format_name == "text":
        print("\n".join(_iter_lines(rows)))
    else:
        write_plain(application, format_name, {"plugins": rows})
    return 0


def _iter_lines(rows: list[Any]) -> list[str]:
    lines = []
    for row in rows:
        lines.append(f"{row['name']}  {row['distribution']} {row['version']}  {row['state']}")
        if row["reason"]:
            lines.append(f"    {row['reason']}")
        counted = f"{row['sources']} sources, {row['backends']} backends"
        named = [
            f"{title}: {', '.join(row[group])}"
            for group, title in (
                ("requirement_classes", "requirements"),
                ("emits", "emits"),
                ("formats", "formats"),
                ("views", "views"),
                ("commands", "commands"),
            )
            if row[group]
        ]
        lines += [f"    {line}" for line in ([counted] if row["sources"] else []) + named]
    return lines


@plugins.command(epilog="\b\nExample:\n  omn plugins check omn-mem\n")
@click.argument("distribution", shell_complete=offer("distributions"))
@plain_format_option
@click.pass_context
def check(context: click.Context, /, distribution: str, format_name: str) -> int:
    """Run the conformance kit on DISTRIBUTION and name each line it breaks. Exit 3 when it breaks any."""
    application = get_application(context)
    return _check(application, distribution, format_name)


def _check(application: Application, distribution: str, format_name: str) -> int:
    from omn_core.testing.conformance import check_distribution

    report = check_distribution(distribution, application.registry, application.catalog)
    if format_name == "text":
        print("\n".join(report.render()))
    else:
        write_plain(application, format_name, report.to_plain())
    return 0 if report.passed else 3

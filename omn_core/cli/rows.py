"""The core's own subcommands."""

from omn_core.model.rows import CommandRow

COMMANDS = (
    CommandRow("trace", "omn_core.cli.trace:trace", "Measure a source. The word may be left out."),
    CommandRow("diff", "omn_core.cli.diff:diff", "Compare two stored runs."),
    CommandRow("list", "omn_core.cli.listing:list_command", "Show every source, usable here or not, and why."),
    CommandRow("help", "omn_core.cli.help:help_command", "Explain a source: what it measures, how, and what it needs."),
    CommandRow("completion", "omn_core.cli.completion:completion", "Print the completion of omn's words for a shell."),
    CommandRow("validate", "omn_core.cli.validate:validate", "Check a request or a session on no machine."),
    CommandRow("catalog", "omn_core.cli.catalog:catalog_command", "Print catalog entries as they stand."),
    CommandRow("plugins", "omn_core.cli.plugins:plugins", "Show what is installed, and check a plugin."),
)

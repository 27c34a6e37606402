"""What the machine did while a harness was recorded: omn's sources on its processes, and those processes' lives."""

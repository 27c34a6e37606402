"""The commands that README shows, in order: the lines of each fenced block of shell."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def read_commands() -> list[str]:
    """Return the text of every ```sh block of README."""
    return [match[1].strip() for match in re.finditer(r"^```sh\n(.*?)^```$", README.read_text(), re.M | re.S)]

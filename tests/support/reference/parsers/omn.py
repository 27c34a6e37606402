"""omn's own answers where the figure is at no one place of them. The argument is one result of a document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reference.parsing import Figures


def parse_rows(result: Mapping[str, Any]) -> Figures:
    """Count what was read in the window: `rows`, before any filter."""
    return {"rows": result["events_seen"]}

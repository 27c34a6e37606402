"""What every encoder is handed."""

from __future__ import annotations

from typing import Any, BinaryIO, Protocol

from omn_core.model.result import Document
from omn_core.model.style import TextStyle


class Encoder(Protocol):
    """One output format. It holds no state, and streams raw events: memory stays bounded whatever their number."""

    def write(self, document: Document, stream: BinaryIO, style: TextStyle) -> None:
        """Write a run."""

    def write_plain(self, value: Any, stream: BinaryIO, style: TextStyle) -> None:
        """Write a request, a session or a listing: plain dicts, lists, strings and numbers.

        Called only on a format whose row says that it carries documents.
        """

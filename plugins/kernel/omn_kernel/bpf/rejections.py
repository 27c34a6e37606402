"""What the verifier says of a program that it rejects, brought back to the lines that wrote it."""

from __future__ import annotations

import re

import attrs

from omn_core.api import MachineRefused
from omn_kernel.bpf.assembly import Assembled

_STEP = re.compile(r"^(\d+): \([0-9a-f]{2}\) (.*?)\s*(?:;.*)?$")
_NAMED = re.compile(r"\binsn (\d+)\b")
_SUMMARY = re.compile(r"^(processed \d+ insns|verification time|stack depth|max_states)")
_MOST_LETTERS = 300


@attrs.frozen(repr=False)
class Verdict:
    """Why a program was rejected, at which of its instructions (slots of eight bytes), and what that is.

    `slot` and `text` are absent where the verifier names none.
    """

    message: str
    slot: int | None
    text: str


def parse_log(log: str) -> Verdict:
    """Parse a verifier's log: it ends at the instruction that was followed last, and says after it what is wrong.

    Releases differ in how much they say after that; what is wrong comes first.
    """
    slot: int | None = None
    text = ""
    said: list[str] = []
    for line in log.splitlines():
        step = _STEP.match(line)
        if step is not None:
            slot, text, said = int(step[1]), step[2], []
        elif line.strip() and not _SUMMARY.match(line):
            said.append(line.strip())
    message = "; ".join(said)[:_MOST_LETTERS]
    named = _NAMED.search(message)
    if slot is None and named is not None:
        slot = int(named[1])
    return Verdict(message, slot, text)


class ProgramRejected(MachineRefused):
    """The kernel's verifier rejected a program. `log` is all that it said, `verdict` the end of it."""

    def __init__(self, assembled: Assembled, log: str) -> None:
        self.verdict = parse_log(log)
        self.log = log
        slot = self.verdict.slot
        self.lines = assembled.lines[slot] if slot is not None and slot < len(assembled.lines) else ()
        where = "" if slot is None else f" at instruction {slot}"
        what = f" ({self.verdict.text})" if self.verdict.text else ""
        written = f", written at {' from '.join(map(str, self.lines))}" if self.lines else ""
        said = self.verdict.message or "it does not say why"
        super().__init__(f"the kernel's verifier rejects the program {assembled.name!r}{where}{what}{written}: {said}")

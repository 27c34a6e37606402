"""The command on a kernel that refuses some programs: `python broken_attaching.py attach|verify FILE WORDS...`.

What this process holds in the kernel at that moment is written to the file; then, while it still lives, the command's
exit code is printed, and the end of standard input is awaited.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from held_objects import list_held
from omn_kernel.bpf import loading, running

from omn_core.api import MachineRefused
from omn_core.cli.entry import main

how, told, *words = sys.argv[1:]
attach, load = running.attach, loading._load
_WRONG = bytes([0xBF, 0x50, 0, 0, 0, 0, 0, 0])
"""r0 = r5, into which nothing was put."""


class Refusing:
    """Takes the first program, and refuses every later one."""

    taken = False

    def tell(self) -> None:
        """Write down, once, what is held now."""
        if not Path(told).exists():
            Path(told).write_text(json.dumps(sorted(list_held(os.getpid()))))

    def attach(self, program: Any, hook: Any) -> Any:
        """Attach the first."""
        if self.taken:
            self.tell()
            raise MachineRefused("it is refused half-way")
        self.taken = True
        return attach(program, hook)

    def load(self, assembled: Any, hook: Any, log: bytearray | None) -> int:
        """Load the first, and have the verifier reject the others."""
        if self.taken:
            self.tell()
            assembled = SimpleNamespace(name=assembled.name, instructions=_WRONG + assembled.instructions[8:])
        self.taken = True
        return load(assembled, hook, log)


if how == "attach":
    running.attach = Refusing().attach
else:
    loading._load = Refusing().load
sys.argv = ["omn", *words]
try:
    code = main()
except SystemExit as ended:
    code = ended.code
print(json.dumps(code), flush=True)
sys.stdin.read()

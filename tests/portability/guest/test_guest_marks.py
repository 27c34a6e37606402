"""A place that a program marks itself, and the counter by which it is told that somebody looks.

The program is made here, byte by byte: guests have no compiler.
"""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import attrs
import pytest

from omn_core.api import EmitSpec
from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry
from omn_core.testing.harness import Driver, bind_processes, resolve_onto

CODE, COUNTER, BYTE = 0x4000B0, 0x401000, 0x401010
"""Where the code begins, behind the headers; where its counter stands, and what it reads into."""
BEFORE = bytes.fromhex("31db 31c0 31ff be10104000 ba01000000 0f05 83f801 751b")
"""xor ebx, ebx; round: read(0, byte, 1); where that is not 1 go to the end."""
MARK = b"\x90"
AFTER = bytes.fromhex("ffc3 b801000000 bf01000000 be00104000 ba01000000 0f05 ebd0")
"""The mark, with the round in ebx; inc ebx; write(1, counter, 1); go to the next round."""
END = bytes.fromhex("b83c000000 31ff 0f05")
"""exit(0)"""


def make_program(path: Path) -> None:
    """Write a program that for each byte that it reads passes a mark and writes the low byte of its counter."""
    code = BEFORE + MARK + AFTER + END
    place = CODE + len(BEFORE)
    body = struct.pack("<QQQ", place, 0, COUNTER) + b"own\0round\0" + b"-4@%ebx\0"
    note = struct.pack("<III", 8, len(body), 3) + b"stapsdt\0" + body + b"\0" * (-len(body) % 4)
    names = b"\0.note.stapsdt\0.shstrtab\0"
    notes_at = 0x2000
    names_at = notes_at + len(note)
    sections_at = names_at + len(names)
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 2, 62, 1, CODE, 64, sections_at, 0, 64, 56, 2, 64, 3, 2)
    segments = struct.pack("<IIQQQQQQ", 1, 5, 0, 0x400000, 0x400000, 0x1000, 0x1000, 0x1000)
    segments += struct.pack("<IIQQQQQQ", 1, 6, 0x1000, COUNTER, COUNTER, 0x1000, 0x1000, 0x1000)
    sections = bytes(64) + struct.pack("<IIQQQQIIQQ", 1, 7, 0, 0, notes_at, len(note), 0, 0, 4, 0)
    sections += struct.pack("<IIQQQQIIQQ", 15, 3, 0, 0, names_at, len(names), 0, 0, 1, 0)
    image = (header + segments + code).ljust(notes_at, b"\0") + note + names + sections
    path.write_bytes(image)
    path.chmod(0o755)


@pytest.mark.spec("KRN-3", "RTM-1")
@pytest.mark.parametrize("backend", ["bpf:uprobe", "bpf:usdt"])
def test_a_marked_place_is_passed_by_a_program_that_is_told(
    registry: Registry, catalog: Catalog, tmp_path: Path, backend: str
) -> None:
    """Its counter is one while it is measured, and its argument counts the rounds."""
    path = tmp_path / "rounds"
    make_program(path)
    with subprocess.Popen([str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as running:
        assert running.stdin is not None
        assert running.stdout is not None

        def ask() -> int:
            assert running.stdin is not None
            assert running.stdout is not None
            running.stdin.write(b".")
            return running.stdout.read(1)[0]

        assert ask() == 0
        target = bind_processes(running.pid)
        asked = resolve_onto(
            catalog.entries["runtime.custom"], backend, target.target, mode="trace", predicate="function == 'own:round'"
        )
        resolved = attrs.evolve(asked, emits=(EmitSpec("raw"),))
        collector = registry.load(registry.collectors["runtime.custom", backend].factory)()
        with Driver(collector, resolved, target) as driver:
            assert [ask() for _ in range(3)] == [1, 1, 1]
            driver.sample()
        assert ask() == 0
        running.stdin.close()
    assert [(row["function"], row["arg0"]) for row in driver.rows] == [("own:round", one) for one in (1, 2, 3)]

"""What it costs to name a profile: a hundred thousand samples over a binary of a million functions."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SYMBOLS, SAMPLES, SIZE = 1_000_000, 100_000, 64
TEXT_AT = 0x1000
MOST_SECONDS, MOST_MEMORY_MIB = 2.0, 300

CHILD = f"""
import json, resource, sys, time
import numpy as np
from omn_kernel.symbols.spaces import AddressSpaces
from omn_kernel.symbols.symboliser import Symboliser

offsets = np.random.default_rng(1).integers(0, {SYMBOLS * SIZE}, {SAMPLES}).astype(np.uint64)
base = 0x555500000000
before = resource.getrusage(resource.RUSAGE_SELF)
spaces = AddressSpaces()
spaces.note_mapping(1 << 22, base, base + {TEXT_AT + SYMBOLS * SIZE}, 0, sys.argv[1], None, None, 0)
symboliser = Symboliser(spaces)
frames = symboliser.resolve(1 << 22, offsets + np.uint64(base + {TEXT_AT}), np.zeros({SAMPLES}, np.int64))
after = resource.getrusage(resource.RUSAGE_SELF)
named = sum(symboliser.symbols[one].name is not None for one in frames.symbol.tolist())
status = open("/proc/self/status").read()  # its own peak: ru_maxrss is inherited through an exec
print(json.dumps({{
    "seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    "peak_mib": int(status.partition("VmHWM:")[2].split()[0]) / 1024, "named": named,
    "symbols": len(symboliser.symbols),
    "first": symboliser.symbols[int(frames.symbol[0])].name, "offset": int(frames.offset[0]),
    "truth": [int(offsets[0]) // {SIZE}, int(offsets[0]) % {SIZE}],
}}))
"""


def write_binary(path: Path) -> None:
    """Write an ELF image of a million C++ functions: a sparse text, a shuffled symbol table, and its names."""
    parts = [f"part{one:07d}" for one in range(SYMBOLS)]
    names = [f"_ZN6engine{len(part)}{part}6handleERKNS_7requestEi" for part in parts]
    strings = b"\0" + "\0".join(names).encode() + b"\0"
    lengths = np.array([len(name) + 1 for name in names], np.uint32)
    fields = [("n", "<u4"), ("i", "u1"), ("o", "u1"), ("s", "<u2"), ("v", "<u8"), ("z", "<u8")]
    records = np.zeros(SYMBOLS, np.dtype(fields))
    records["n"] = np.cumsum(lengths) - lengths + 1
    records["i"], records["s"], records["z"] = 0x12, 1, SIZE
    records["v"] = TEXT_AT + np.arange(SYMBOLS, dtype=np.uint64) * SIZE
    table = np.random.default_rng(2).permutation(records).tobytes()
    table_at = TEXT_AT + SYMBOLS * SIZE
    headers_at = table_at + len(table) + len(strings)
    sections = [
        (0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        (0, 1, 6, TEXT_AT, TEXT_AT, SYMBOLS * SIZE, 0, 0, 16, 0),
        (0, 2, 0, 0, table_at, len(table), 3, 0, 8, 24),
        (0, 3, 0, 0, table_at + len(table), len(strings), 0, 0, 1, 0),
    ]
    header = b"\x7fELF\2\1\1" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, headers_at, 0, 64, 56, 1, 64, len(sections), 0)
    header += struct.pack("<IIQQQQQQ", 1, 5, TEXT_AT, TEXT_AT, TEXT_AT, SYMBOLS * SIZE, SYMBOLS * SIZE, 4096)
    with path.open("wb") as file:
        file.write(header)
        file.seek(table_at)
        file.write(table + strings + b"".join(struct.pack("<IIQQQQIIQQ", *section) for section in sections))


@pytest.mark.spec("STK-6")
def test_a_profile_over_a_million_symbols_is_named_in_two_seconds_and_300_mib(tmp_path: Path) -> None:
    """Every sample named, nearly every one by a function of its own: the worst spread; the best of three runs."""
    path = tmp_path / "engine"
    write_binary(path)
    runs = []
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, check=True)
        runs.append(json.loads(done.stdout))
    best = min(runs, key=lambda run: run["seconds"])
    print(f"\nsymbols: {best['seconds']:.2f} s of cpu, peak {best['peak_mib']:.0f} MiB, {best['symbols']} made")
    assert best["named"] == SAMPLES
    number, offset = best["truth"]
    assert (best["first"], best["offset"]) == (f"engine::part{number:07d}::handle(engine::request const&, int)", offset)
    assert best["seconds"] < MOST_SECONDS
    assert best["peak_mib"] < MOST_MEMORY_MIB

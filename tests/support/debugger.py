"""Stops of a running program as gdb sees them: its frames, its registers and its stack. A witness of walks."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from numpy.typing import NDArray
from omn_kernel.symbols.mappings import parse_mappings
from omn_kernel.unwind.copied import CopiedStacks
from omn_kernel.unwind.ranges import FrameTables
from omn_kernel.unwind.walking import Chains, Walker

SCRIPT = """
import json, sys
import gdb

NAMES = "rax rdx rcx rbx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip".split()


def read_stack(pid, top):
    for line in open(f"/proc/{pid}/maps"):
        start, end = (int(one, 16) for one in line.split()[0].split("-"))
        if start <= top < end:
            return bytes(gdb.selected_inferior().read_memory(top, end - top))
    return b""


def stop(pid, stacks):
    gdb.execute("continue", to_string=True)
    frames, frame = [], gdb.newest_frame()
    registers = [int(gdb.parse_and_eval(f"(unsigned long)${name}")) for name in NAMES]
    while frame is not None:
        if frame.type() != gdb.INLINE_FRAME:
            frames.append(frame.pc())
        frame = frame.older()
    stack = read_stack(pid, registers[7])
    stacks.write(stack)
    return {"frames": frames, "registers": registers, "size": len(stack)}


def main(pid, count, path):
    for setting in ("pagination off", "confirm off", "backtrace past-main on", "debuginfod enabled off"):
        gdb.execute(f"set {setting}")
    gdb.execute("handle SIGUSR1 stop nopass", to_string=True)
    gdb.execute(f"attach {pid}", to_string=True)
    with open(path, "wb") as stacks:
        for _ in range(count):
            print("go", flush=True)
            print(json.dumps(stop(pid, stacks)), flush=True)
    gdb.execute("detach", to_string=True)
"""


@attrs.frozen(eq=False)
class Stops:
    """What gdb saw, and the walks over the same registers and the same stacks."""

    frames: list[list[int]]
    copied: CopiedStacks
    chains: Chains

    def find_different(self) -> list[int]:
        """Find the stops whose frames are not the walk's."""
        return [at for at, frames in enumerate(self.frames) if self.chains.get_chain(at).tolist() != frames]


def watch(pid: int, count: int, folder: Path, seed: int) -> Stops:
    """Stop a process so often, anywhere, and walk each stop. Skips where there is no gdb with Python, or it may not."""
    script, path = folder / "stops.py", folder / "stacks"
    script.write_text(f"{SCRIPT}\nmain({pid}, {count}, {str(path)!r})\n")
    if shutil.which("gdb") is None:
        pytest.skip("gdb is not installed here")
    command = ["gdb", "-nx", "-batch", "-x", str(script)]
    chance, stops = random.Random(seed), list[dict[str, Any]]()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as gdb:
        assert gdb.stdout is not None
        assert gdb.stderr is not None
        for line in gdb.stdout:
            if line == "go\n":
                time.sleep(chance.uniform(0.001, 0.02))  # where it stops is what is chosen here
                os.kill(pid, signal.SIGUSR1)
            elif line.startswith("{"):
                stops.append(json.loads(line))
        said = gdb.stderr.read()
    if len(stops) < count and ("not permitted" in said or "Python scripting is not supported" in said):
        pytest.skip(f"gdb does not serve here: {said.strip().splitlines()[-1]}")
    assert len(stops) == count, said
    copied = _lay_out(stops, np.fromfile(path, np.uint8))
    mappings = parse_mappings(Path(f"/proc/{pid}/maps").read_bytes())
    walker = Walker(FrameTables().make_ranges(mappings, pid, True))
    return Stops([stop["frames"] for stop in stops], copied, walker.walk(copied))


def _lay_out(stops: list[dict[str, Any]], stacks: NDArray[np.uint8]) -> CopiedStacks:
    ends = np.cumsum([stop["size"] for stop in stops]).astype(np.uint64)
    sizes = np.array([stop["size"] for stop in stops], np.uint64)
    return CopiedStacks(np.array([stop["registers"] for stop in stops], np.uint64), stacks, ends - sizes, ends)

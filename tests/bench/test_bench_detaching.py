"""How long the kernel takes to end the probes of many functions, beside those of one."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import pytest
from compiled import compile_c
from omn_kernel.bpf.hooks import UserProbes
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.running import RunningPrograms
from omn_kernel.btf.kernel import read_kernel_btf
from omn_kernel.elf.functions import find_functions
from omn_kernel.elf.image import read_image
from omn_kernel.elf.source import File
from omn_kernel.privileges import read_privileges

FUNCTIONS, ROUNDS, MOST = 32, 5, 6.0
NAMES = [f"called_{number}" for number in range(FUNCTIONS)]
SOURCE = "\n".join(f"int {name}(int one) {{ return one + 1; }}" for name in NAMES) + "\nint main(void) { return 0; }\n"


def time_detaching(path: str, places: list[int]) -> float:
    """Return the milliseconds in which as many links as there are places end."""
    running, types = RunningPrograms(), read_kernel_btf("/")
    for place in places:
        program = KernelAssembly("omn_bench", types, has_typed_pointers=False)
        program.leave(0)
        running.load(program, UserProbes(path, [place]))
    running.attach()
    began_ns = time.monotonic_ns()
    running.detach()
    return (time.monotonic_ns() - began_ns) / 1e6


def test_the_probes_of_many_functions_end_together(tmp_path: Path) -> None:
    """The kernel waits at each end until nobody is inside any more: in turn, thirty took thirty times as long."""
    if not read_privileges("/").has("bpf"):
        pytest.skip("this process is without CAP_BPF")
    path = str(compile_c(tmp_path, "called", SOURCE))
    found = find_functions(read_image(File(path)), set(NAMES))
    places = [place for name in NAMES for place in found[name]]
    one, all_of_them = [], []
    for _ in range(ROUNDS):
        one.append(time_detaching(path, places[:1]))
        all_of_them.append(time_detaching(path, places))
    ratio = statistics.median(all_of_them) / statistics.median(one)
    many_ms, one_ms = statistics.median(all_of_them), statistics.median(one)
    print(f"\nlinks ended: {FUNCTIONS} in {many_ms:.0f} ms, one in {one_ms:.0f} ms: {ratio:.1f}x (at most {MOST:g}x)")
    assert ratio <= MOST

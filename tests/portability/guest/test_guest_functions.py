"""Programs at the kernel's own functions, by what they counted: machines without kprobes cannot run them outside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.attaching import AnyHook, attach
from omn_kernel.bpf.hooks import Function, KernelProbe
from omn_kernel.bpf.loading import load
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R0, R1, R2
from omn_kernel.btf.kernel import read_kernel_btf
from omn_kernel.btf.types import Btf

from omn_core.testing.stepped import Running, Workload, make_workload

Start = Callable[[Workload], Running]
CALLS, BESIDE = 137, 29
FUNCTION = "__x64_sys_fsync"
SEEN = np.dtype([("own", np.uint64), ("others", np.uint64)])
HOOKS: dict[str, Callable[[Btf], AnyHook]] = {
    "fentry": lambda types: Function(FUNCTION, types),
    "fexit": lambda types: Function(FUNCTION, types, is_exit=True),
    "kprobe": lambda _: KernelProbe(FUNCTION),
    "kretprobe": lambda _: KernelProbe(FUNCTION, is_return=True),
}


def call_fsync(path: Path, times: int) -> Workload:
    """Call fsync so many times between `ready` and `called`, then between `ready` and `again`."""
    return make_workload(
        f"fsync {times} times",
        f"""
target = os.open({str(path)!r}, os.O_CREAT | os.O_RDWR, 0o600)
for end in ("called", "again"):
    step("ready")
    for _ in range({times}):
        os.fsync(target)
    step(end)
""",
    )


@pytest.mark.spec("KRN-3", "KRN-9")
@pytest.mark.parametrize("name", HOOKS)
def test_a_function_of_the_kernel_runs_a_program_at_each_call(workload: Start, tmp_path: Path, name: str) -> None:
    """A program's 137 calls and another's 29, each counted as its own: none is missed, and none is counted after it."""
    types = read_kernel_btf("/")
    hook = HOOKS[name](types)
    child, other = (workload(call_fsync(tmp_path / str(times), times)) for times in (CALLS, BESIDE))
    for one in (child, other):
        one.wait("ready")
    with Map(MapType.ARRAY, "seen", np.uint32, SEEN, 1) as seen:
        program = KernelAssembly(f"omn_{name}", types, has_typed_pointers=False)
        program.call("get_current_pid_tgid")
        program.compute(R0, ">>=", 32)
        program.point_into(R1, seen)
        program.move(R2, 1)
        for pid, field in ((child.pid, "own"), (other.pid, "others")):
            with program.when(R0, "==", pid):
                program.add_to(Record(R1, seen.value), field, R2)
        program.leave(0)
        with load(program.assemble(), hook) as loaded, attach(loaded, hook):
            for one in (child, other):
                one.release()
                one.wait("called")
        found = seen.find(0)
        assert (int(found["own"]), int(found["others"])) == (CALLS, BESIDE)
        child.release()
        child.wait("ready")
        child.release()
        child.wait("again")
        assert seen.find(0) == found

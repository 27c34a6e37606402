"""What programs hold and use of cards by DRM's accounts, on descriptors as the kernel documents them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from another_user import run_as_another_user
from drm_tree import write_card
from omn_gpu.fdinfo import parse_fdinfo

from omn_core.api import BoundTarget, ProcessHandle, Target, TargetGone
from omn_core.testing.harness import Driver, bind_machine
from omn_core.testing.sysroot import Sysroot

Drive = Callable[..., Driver]
SECOND = 1_000_000_000
KIB = 1 << 10

AMDGPU = """pos:\t0
flags:\t02100002
mnt_id:\t27
ino:\t412
drm-driver:\tamdgpu
drm-client-id:\t{number}
drm-pdev:\t0000:0b:00.0
pasid:\t32771
drm-memory-vram:\t{vram} KiB
drm-memory-gtt: \t512 KiB
drm-memory-cpu: \t0 KiB
amd-evicted-vram:\t0 KiB
drm-engine-gfx:\t{gfx} ns
drm-engine-compute:\t0 ns
"""
I915 = """drm-driver: i915
drm-client-id: {number}
drm-pdev: 0000:00:02.0
drm-total-system0: 4096 KiB
drm-resident-system0: 2048 KiB
drm-resident-local0: 3 MiB
drm-engine-render: {render} ns
drm-engine-video: {video} ns
drm-engine-capacity-video: 2
"""
XE = """drm-driver:\txe
drm-client-id:\t{number}
drm-pdev:\t0000:0c:00.0
drm-resident-system:\t0
drm-resident-gtt:\t192 KiB
drm-resident-vram0:\t23992 KiB
drm-cycles-rcs:\t{cycles}
drm-total-cycles-rcs:\t{total}
drm-cycles-ccs:\t0
drm-total-cycles-ccs:\t{total}
drm-engine-capacity-ccs:\t4
"""


def write_process(sysroot: Sysroot, pid: int, files: dict[int, str], children: str = "") -> None:
    """Write a process with open files of cards, and one of something else."""
    sysroot.write_process(pid).write(f"proc/{pid}/task/{pid}/children", children).write(f"proc/{pid}/comm", f"p{pid}\n")
    sysroot.link(f"proc/{pid}/fd/0", "/dev/null").write(f"proc/{pid}/fdinfo/0", "pos:\t0\n")
    for number, content in files.items():
        sysroot.link(f"proc/{pid}/fd/{number}", "/dev/dri/renderD128").write(f"proc/{pid}/fdinfo/{number}", content)


@pytest.fixture
def machine(sysroot: Sysroot) -> Sysroot:
    """A card of each driver, and a program with a child."""
    for name, driver, pci in (
        ("card0", "i915", "0000:00:02.0"),
        ("card1", "amdgpu", "0000:0b:00.0"),
        ("card2", "xe", "0000:0c:00.0"),
    ):
        write_card(sysroot, name, driver, pci)
    write_process(sysroot, 7, {}, children="8 ")
    write_process(sysroot, 8, {})
    return sysroot


@pytest.fixture
def target() -> BoundTarget:
    """The program."""
    return BoundTarget(Target("pid", (7,)), "process", (ProcessHandle(7, None, 100),))


def strip(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "ts_ns"} for row in rows]


def test_each_drivers_descriptor_is_parsed() -> None:
    """Amounts in KiB, MiB and bytes; resident where it is told, else what older kernels called memory."""
    amd = parse_fdinfo(AMDGPU.format(number=7, vram=2048, gfx=123).encode())
    assert amd is not None
    assert (amd.driver, amd.pci, amd.number, amd.busy) == ("amdgpu", "0000:0b:00.0", 7, {"gfx": 123, "compute": 0})
    assert (amd.own_bytes, amd.system_bytes) == (2048 * KIB, 512 * KIB)
    intel = parse_fdinfo(I915.format(number=3, render=5, video=6).encode())
    assert intel is not None
    assert (intel.own_bytes, intel.system_bytes, intel.capacity) == (3 * KIB * KIB, 2048 * KIB, {"video": 2})
    xe = parse_fdinfo(XE.format(number=3, cycles=10, total=100).encode())
    assert xe is not None
    assert (xe.busy, xe.total_cycles) == ({"rcs": 10, "ccs": 0}, {"rcs": 100, "ccs": 100})
    assert (xe.own_bytes, xe.system_bytes) == (23992 * KIB, 192 * KIB)


@pytest.mark.parametrize("content", ["pos:\t0\n", "drm-driver:\tpanfrost\ndrm-client-id:\t3\n", ""])
def test_what_is_no_client_of_a_card_on_a_bus_is_none(content: str) -> None:
    """Another file, and a device of a system on a chip."""
    assert parse_fdinfo(content.encode()) is None


@pytest.mark.spec("GPU-1", "EVT-4")
def test_memory_counts_a_client_once_however_often_it_is_open(
    machine: Sysroot, drive: Drive, target: BoundTarget
) -> None:
    """A descriptor that was copied, or inherited by a child, is the same client; another of the card is not."""
    one = AMDGPU.format(number=1, vram=1024, gfx=0)
    write_process(machine, 7, {3: one, 4: one}, children="8 ")
    write_process(machine, 8, {3: one, 5: AMDGPU.format(number=2, vram=256, gfx=0)})
    with drive("gpu.mem", target, backend="fs:proc:fdinfo", sysroot=machine) as driver:
        assert strip(driver.sample()) == [{"bytes": 1280 * KIB, "system_bytes": 1024 * KIB}]
    with drive("gpu.mem", target, "gpu", backend="fs:proc:fdinfo", sysroot=machine) as driver:
        assert [(row["gpu"], row["bytes"]) for row in driver.sample()] == [(0, 0), (1, 1280 * KIB), (2, 0)]
    with drive("gpu.mem", target, "task", backend="fs:proc:fdinfo", sysroot=machine) as driver:
        assert [(row["task"], row["bytes"]) for row in driver.sample()] == [(7, 1024 * KIB), (8, 1280 * KIB)]


def test_a_program_without_an_open_card_holds_nothing(machine: Sysroot, drive: Drive, target: BoundTarget) -> None:
    """A zero is a measurement here: its descriptors were read. Its end is the end of the request."""
    with drive("gpu.mem", target, backend="fs:proc:fdinfo", sysroot=machine) as driver:
        assert strip(driver.sample()) == [{"bytes": 0, "system_bytes": 0}]
        machine.remove("proc/7").remove("proc/8")
        with pytest.raises(TargetGone):
            driver.sample()


@pytest.mark.spec("GPU-1")
def test_use_is_the_busiest_engines_share_of_the_interval(machine: Sysroot, drive: Drive, target: BoundTarget) -> None:
    """Of time, over how many alike there are; a client that came counts from its opening."""
    write_process(machine, 7, {3: I915.format(number=1, render=100, video=0)}, children="8 ")
    now = [0]
    divided = drive(
        "gpu.util", target, "gpu", "gpu.engine", backend="fs:proc:fdinfo", sysroot=machine, clock=lambda: now[0]
    )
    whole = drive("gpu.util", target, backend="fs:proc:fdinfo", sysroot=machine, clock=lambda: now[0])
    with divided, whole:
        now[0] = SECOND
        write_process(machine, 7, {3: I915.format(number=1, render=100 + SECOND // 4, video=SECOND)}, children="8 ")
        write_process(machine, 8, {3: I915.format(number=2, render=SECOND // 8, video=0)})
        rows = {row["gpu.engine"]: row["util"] for row in divided.sample()}
        assert rows == {"render": 0.375, "video": 0.5}
        assert strip(whole.sample()) == [{"gpu": 0, "gpu.engine": "video", "util": 0.5, "interval_ns": SECOND}]


def test_cycles_are_a_share_of_the_cycles_that_passed(machine: Sysroot, drive: Drive, target: BoundTarget) -> None:
    """As xe counts; a client begins with its first reading."""
    write_process(machine, 7, {3: XE.format(number=1, cycles=1000, total=10_000)}, children="8 ")
    with drive("gpu.util", target, backend="fs:proc:fdinfo", sysroot=machine) as driver:
        write_process(machine, 7, {3: XE.format(number=1, cycles=1300, total=11_000)}, children="8 ")
        (row,) = driver.sample()
        assert (row["gpu"], row["gpu.engine"], row["util"]) == (2, "rcs", pytest.approx(0.3))


def test_a_driver_that_states_less_for_a_moment_is_waited_for(
    machine: Sysroot, drive: Drive, target: BoundTarget
) -> None:
    """As the kernel's document asks: the larger figure stands until it is passed."""
    now = [0]
    write_process(machine, 7, {3: AMDGPU.format(number=1, vram=0, gfx=SECOND)}, children="8 ")
    with drive("gpu.util", target, backend="fs:proc:fdinfo", sysroot=machine, clock=lambda: now[0]) as driver:
        found = []
        for second, gfx in ((1, SECOND // 2), (2, 2 * SECOND)):
            now[0] = second * SECOND
            write_process(machine, 7, {3: AMDGPU.format(number=1, vram=0, gfx=gfx)}, children="8 ")
            found.append(driver.sample()[0]["util"])
    assert found == [0.0, 1.0]


def test_processes_of_the_cards(machine: Sysroot, drive: Drive) -> None:
    """Counted by card, or listed with what each holds."""
    write_process(machine, 7, {3: AMDGPU.format(number=1, vram=64, gfx=0)})
    write_process(machine, 8, {3: I915.format(number=1, render=0, video=0)})
    with drive("gpu.processes", bind_machine(), backend="fs:proc:fdinfo", sysroot=machine) as driver:
        assert [(row["gpu"], row["processes"]) for row in driver.sample()] == [(0, 1), (1, 1), (2, 0)]
    with drive("gpu.processes", bind_machine(), backend="fs:proc:fdinfo", mode="snapshot", sysroot=machine) as driver:
        rows = [(row["gpu"], row["task"], row["bytes"], row["comm"]) for row in driver.sample()]
    assert rows == [(1, 7, 64 * KIB, "p7"), (0, 8, 3 * KIB * KIB, "p8")]


@pytest.mark.spec("PRB-1")
def test_another_users_descriptors_are_refused_by_what_they_take() -> None:
    """Before anything runs, with the capability that is missing."""
    printed = run_as_another_user(
        """
        import os
        from omn_core.api import MachineRefused
        from omn_gpu.fdinfo import read_clients
        import omn_kernel.privileges
        """,
        """
        try:
            read_clients("/", 1)
        except MachineRefused as refused:
            print(refused)
        """,
    )
    assert "process 1 does not let this user read its descriptors: " in printed
    assert "CAP_SYS_PTRACE" in printed

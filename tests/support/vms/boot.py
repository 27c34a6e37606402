"""One boot of one kernel in QEMU: what its guest said, and why where it said nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from vms.firmware import build_clocks
from vms.image import Archive
from vms.kernels import Kernel, Unreachable

_DISKS = ("files", "blocks")
"""One that guests put a file system on, and one whose every transfer is a test's own."""

_DISK_BYTES = 64 << 20
_TAIL = 3000

_MACHINE = (
    # Several threads of translated code panicked one boot in nine with QEMU 7.2. The family that QEMU makes up without
    # one is of processors whose clocks the kernel sets by no table of the firmware's.
    "-accel tcg,thread=single -machine q35 -cpu max,family=16 -smp 2 -m 3072 "
    "-nodefaults -no-user-config -display none -no-reboot"
)
NODES = "nodes"
"""The cell whose guest has a memory node of each cpu, so that the kernel has something to decide about them."""
_TWO_NODES = (
    "-object memory-backend-ram,id=near,size=1536M -numa node,memdev=near,cpus=0 "
    "-object memory-backend-ram,id=far,size=1536M -numa node,memdev=far,cpus=1"
)


@attrs.frozen
class Boot:
    """What came of a boot: each cell's record by its name, and why there is none where the guest ended early."""

    kernel: Kernel
    records: Mapping[str, Any]
    reason: str | None


def boot(kernel: Kernel, image: Path, cells: Sequence[str], folder: Path, limit_s: float) -> Boot:
    """Boot a kernel, have its guest fill the cells, and return what it reported.

    The guest ends by switching itself off. One that panics, or is not done within the limit, leaves the records that it
    wrote, and a reason with the last of its console. Raises Unreachable where QEMU is missing.
    """
    program = shutil.which("qemu-system-x86_64")
    if program is None:
        raise Unreachable("qemu-system-x86_64 is not installed here")
    folder.mkdir(parents=True, exist_ok=True)
    console, report, initial, *disks = (folder / name for name in ("console", "report", "initial", *_DISKS))
    for disk in disks:
        with disk.open("wb") as file:
            file.truncate(_DISK_BYTES)
    _join(initial, image, kernel)
    words = f"console=ttyS0 quiet panic=-1 oops=panic rdinit=/init portability.cells={','.join(cells)}"
    machine = [*_MACHINE.split(), *(_TWO_NODES.split() if NODES in cells else ())]
    clocks = build_clocks(folder)
    command = [
        program,
        *machine,
        "-acpitable",
        f"file={clocks}",
        "-kernel",
        str(kernel.image),
        "-initrd",
        str(initial),
        "-append",
        words,
    ]
    command += ["-serial", f"file:{console}", "-serial", f"file:{report}"]
    # Kernels have this driver built in; of one controller the disks are nvme0n1 and nvme0n2 in every boot.
    command += ["-device", "nvme,id=controller,serial=0"]
    for disk in disks:
        command += ["-drive", f"if=none,id={disk.name},format=raw,cache=unsafe,file={disk}"]
        command += ["-device", f"nvme-ns,drive={disk.name},bus=controller"]
    reason = _run(command, limit_s)
    for part in (initial, *disks):
        part.unlink()
    records = dict(_read_records(report))
    if reason is None and "done" not in records:
        reason = "the guest ended early"
    if reason is not None:
        reason = f"{reason}; its console ends with:\n{console.read_text(errors='replace')[-_TAIL:]}"
    return Boot(kernel, records, reason)


def _join(path: Path, image: Path, kernel: Kernel) -> None:
    """Write the image with this kernel's modules after it: the kernel reads several archives one after the other."""
    own = path.with_name("modules")
    with Archive(own) as archive:
        for module in kernel.modules:
            archive.add_file(f"modules/{module.name}", module)
    with path.open("wb") as whole:
        for part in (image, own):
            with part.open("rb") as file:
                shutil.copyfileobj(file, whole)


def _run(command: Sequence[str], limit_s: float) -> str | None:
    """Run QEMU to its end, and return why it did not come to one."""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            _, said = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return f"the guest was not done within {limit_s:.0f} s"
    return None if process.returncode == 0 else f"qemu ended with {process.returncode}: {said.strip()}"


def _read_records(report: Path) -> list[tuple[str, Any]]:
    """Read what the guest reported: one JSON object a line, the last one whole where it was cut off."""
    if not report.exists():
        return []
    lines = [line for line in report.read_text(errors="replace").split("\n")[:-1] if line.startswith("{")]
    return [(record["cell"], record) for record in map(json.loads, lines)]

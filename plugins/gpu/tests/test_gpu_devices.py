"""Which devices there are, what `--gpu` names, and what the probes of a library answer in each of its states."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from drm_tree import write_card
from nvml_stub import Stub
from omn_gpu.device import find_pci
from omn_gpu.probes import probe_drm, probe_nvml

from omn_core.api import BoundTarget, MachineRefused, Need, ProbeContext, State
from omn_core.testing.fixtures import Command
from omn_core.testing.sysroot import Sysroot

Bind = Callable[..., BoundTarget]
PROBE = """
import json
from omn_core.api import Need, ProbeContext
from omn_gpu.probes import probe_nvml
answer = probe_nvml(Need("nvml", "nvml"), ProbeContext())
print(json.dumps([answer.state.value, answer.reason, answer.remedy]))
"""


def probe(**changes: str) -> list[str]:
    """Ask in a process of its own: a library that was started once stays so."""
    environment = {name: value for name, value in os.environ.items() if name != "OMN_STUB_NVML"} | changes
    done = subprocess.run([sys.executable, "-c", PROBE], env=environment, capture_output=True, check=True)
    answer: list[str] = json.loads(done.stdout)
    return answer


@pytest.mark.spec("PRB-5")
def test_a_library_that_starts_and_counts_a_device_is_available(stub: Stub) -> None:
    """The probe starts it and asks how many there are."""
    assert probe(**stub.environment) == ["available", None, None]


@pytest.mark.spec("PRB-1", "PRB-5")
@pytest.mark.parametrize(
    ("answers", "state", "sentence"),
    [
        ({"count": 0}, "missing", "NVIDIA's driver is loaded and has no device"),
        ({"init": 9}, "missing", "NVIDIA's driver is not loaded (NVML: Driver Not Loaded)"),
        ({"init": 18}, "missing", "the driver that is loaded are of different versions"),
        ({"init": 4}, "restricted", "NVIDIA's driver is closed to this user"),
        ({"init": 999}, "unknown", "libnvidia-ml.so.1 does not start (NVML: Unknown Error)"),
        ({"count.error": 999}, "unknown", "NVIDIA's driver does not count its devices"),
    ],
)
def test_a_library_is_not_its_driver(stub: Stub, answers: dict[str, int], state: str, sentence: str) -> None:
    """One that loads and does not start, or knows no device, serves nothing, and the reason says which."""
    stub.set(answers)
    found, reason, _ = probe(**stub.environment)
    assert (found, sentence in reason) == (state, True), reason


def test_no_library_is_missing_by_its_name(stub: Stub, tmp_path: Path) -> None:
    """One that is no library is missing for that reason."""
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")
    found, reason, _ = probe(LD_LIBRARY_PATH=str(tmp_path))
    assert (found, "libnvidia-ml.so.1 cannot be loaded" in reason) == ("missing", True), reason


def test_without_a_library_every_source_says_what_is_missing(omn: Command) -> None:
    """`omn list gpu` names the file, and so does the refusal of a request; nothing ran."""
    if any(Path("/dev").glob("nvidia*")):
        pytest.skip("this machine has an NVIDIA device")
    listed = json.loads(omn("list", "gpu", "--format", "json").stdout)["sources"]
    backends = {backend["reason"] for source in listed for backend in source["backends"] if "nvml" in backend["id"]}
    assert backends == {"nvml: libnvidia-ml.so.1 is not here"}
    ran = omn("gpu.temp", "--system", "-d", "1s")
    assert ran.code == 1
    assert "libnvidia-ml.so.1 is not here" in ran.stderr
    assert ran.stderr.splitlines()[-1] == "omn: this machine refused the request; nothing ran"
    named = omn("gpu.temp", "--gpu", "0", "-d", "1s")
    assert (named.code, "libnvidia-ml.so.1 is not here" in named.stderr) == (1, True)


@pytest.mark.spec("GPU-1")
@pytest.mark.parametrize("name", ["1", "GPU-0002", "b3:00.0", "0000:B3:00.0", "00000000:b3:00.0"])
def test_a_device_goes_by_its_number_its_uuid_and_its_address(stub: Stub, bind: Bind, name: str) -> None:
    """Each spelling binds the same device, and the result says which it is."""
    stub.add_second()
    bound = bind(name)
    expected = {"gpu": 1, "name": "Stub Two", "driver": "nvidia", "pci": "0000:b3:00.0", "uuid": "GPU-0002"}
    assert (bound.described, bound.scope) == (expected, "device")


def test_cards_of_the_kernels_drivers_follow_by_their_addresses(stub: Stub, bind: Bind, sysroot: Sysroot) -> None:
    """One that NVML knows has its number there; a card of a driver that nobody reads has none."""
    write_card(sysroot, "card1", "amdgpu", "0000:0b:00.0")
    write_card(sysroot, "card0", "xe", "0000:0c:00.0")
    write_card(sysroot, "card2", "ast", "0000:02:00.0")
    assert [bind(str(index), sysroot).described["driver"] for index in range(3)] == ["nvidia", "amdgpu", "xe"]
    with pytest.raises(MachineRefused) as refused:
        bind("3", sysroot)
    assert str(refused.value) == (
        "there is no graphics device '3'; the machine's are 0 (Stub One, 0000:65:00.0), 1 (amdgpu card1, 0000:0b:00.0),"
        " 2 (xe card0, 0000:0c:00.0)"
    )


@pytest.mark.parametrize("name", ["GPU-none", "nonsense", "ff:00.0", "-1"])
def test_what_names_no_device_is_refused_with_those_there_are(stub: Stub, bind: Bind, name: str) -> None:
    """The sentence repeats the name."""
    with pytest.raises(MachineRefused, match=f"there is no graphics device '{name}'"):
        bind(name)


def test_an_address_is_spelled_as_the_kernel_does() -> None:
    """NVML writes eight digits of domain in capitals; a text that is no address is none."""
    assert find_pci("00000000:B3:00.0") == find_pci("b3:00.0") == "0000:b3:00.0"
    assert find_pci("10000:65:00.1") == "10000:65:00.1"
    assert (find_pci("0000:65:00"), find_pci("65")) == (None, None)


@pytest.mark.spec("PLG-9", "PRB-1")
def test_a_card_is_asked_for_by_its_driver_and_its_file(sysroot: Sysroot) -> None:
    """A card, a card of any driver that is read, and a file of it behind a number that the kernel chose."""

    def ask(argument: str) -> tuple[State, str | None]:
        answer = probe_drm(Need(f"drm:{argument}", "drm", argument), ProbeContext(sysroot=str(sysroot)))
        return answer.state, answer.reason

    assert ask("any") == (State.MISSING, "no card of the driver amdgpu or i915 or xe is in /sys/class/drm")
    write_card(sysroot, "card1", "amdgpu", "0000:0b:00.0")
    assert ask("any") == ask("amdgpu") == (State.AVAILABLE, None)
    assert ask("i915|xe")[0] is State.MISSING
    wanted = "amdgpu:device/hwmon/hwmon*/temp1_input"
    assert ask(wanted) == (State.MISSING, "no card of amdgpu here has device/hwmon/hwmon*/temp1_input")
    sysroot.write("sys/devices/pci0000:00/0000:0b:00.0/hwmon/hwmon4/temp1_input", "45000\n")
    assert ask(wanted) == (State.AVAILABLE, None)


@pytest.mark.spec("PRB-1")
def test_for_one_device_the_others_do_not_answer(stub: Stub, bind: Bind, sysroot: Sysroot) -> None:
    """A card's file is asked of the card that is named, and NVML about NVIDIA's devices alone."""
    write_card(sysroot, "card1", "amdgpu", "0000:0b:00.0", {"device/gpu_busy_percent": "1\n"})
    write_card(sysroot, "card2", "amdgpu", "0000:0c:00.0")

    def ask(name: str, *need: str) -> tuple[State, str | None]:
        context = ProbeContext("gpu", str(sysroot), bind(name, sysroot).place)
        answer = (probe_drm if need else probe_nvml)(Need("", "", *need), context)
        return answer.state, answer.reason

    busy = "amdgpu:device/gpu_busy_percent"
    assert (ask("0"), ask("1", busy)) == ((State.AVAILABLE, None), (State.AVAILABLE, None))
    assert ask("2", busy) == (State.MISSING, "no card of amdgpu here has device/gpu_busy_percent")
    assert ask("0", busy) == (State.MISSING, "gpu 0 (Stub One) is of the driver nvidia, and not of amdgpu")
    told = "gpu 1 (amdgpu card1) is of the driver amdgpu, which NVML does not know"
    assert ask("1") == (State.MISSING, told)

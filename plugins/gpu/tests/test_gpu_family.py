"""The family as omn sees it: the conformance kit, its chains, and runs of the command on a stand-in for the library."""

from __future__ import annotations

import subprocess
import sys

import pytest
from another_user import run_as_another_user
from drm_tree import write_card
from nvml_stub import MIB, Stub

from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry
from omn_core.testing.conformance import check_distribution
from omn_core.testing.fixtures import Command
from omn_core.testing.sysroot import Sysroot

JSON = ("--format", "json")


@pytest.mark.spec("PLG-3", "PLG-9", "CAT-1", "CAT-2")
def test_the_family_keeps_the_contracts(registry: Registry, catalog: Catalog) -> None:
    """The conformance kit finds no broken line."""
    assert check_distribution("omn-gpu", registry, catalog).broken == ()


@pytest.mark.spec("CAT-1", "GPU-1")
def test_what_is_declared_is_collected_or_says_why_not(catalog: Catalog, registry: Registry) -> None:
    """Sources of the device have a collector; those inside a program wait for the injection library."""
    ours = {name: entry for name, entry in catalog.entries.items() if entry.family == "gpu"}
    collected = {name for name, _ in registry.collectors if name in ours}
    assert collected == {f"gpu.{name}" for name in ["util", "mem", "power", "temp", "clocks", "pcie", "processes"]}
    inside = [entry.backend("vendor:cupti") for name, entry in ours.items() if name not in collected]
    assert {backend.uncollected for backend in inside if backend} == {"the injection library is not written yet"}
    assert len(inside) == 4


@pytest.mark.spec("CAT-8", "EVT-4")
def test_only_energy_adds_up(catalog: Catalog) -> None:
    """Memory, shares, degrees and clocks have no total over time."""
    adding = {name for name, entry in catalog.entries.items() if entry.family == "gpu" and entry.adds_up("poll")}
    assert adding == {"gpu.power"}


@pytest.mark.spec("PLG-4")
def test_listing_loads_no_binding_without_a_library() -> None:
    """The vendor's binding takes longer to import than a listing may: it is asked where a library was found."""
    code = (
        "import sys\n"
        "from omn_core.api import Need, ProbeContext\n"
        "from omn_gpu import nvml\n"
        "nvml.LIBRARY = 'libomn-none.so.1'\n"
        "from omn_gpu.probes import probe_nvml\n"
        "print(probe_nvml(Need('nvml', 'nvml'), ProbeContext()).reason, 'pynvml' in sys.modules)\n"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed == "libomn-none.so.1 is not here False\n"


@pytest.mark.spec("EVT-4")
def test_a_devices_memory_and_a_programs_are_two_scopes(stub: Stub, omn: Command) -> None:
    """The document and each event say which it is."""
    stub.set(memory=f"{100 * MIB} {70 * MIB} {30 * MIB}", compute="")
    asked = ("gpu.mem", "-e", "raw", *JSON)
    device = omn(*asked, "--gpu", "0", "-d", "100ms", **stub.environment).result
    program = omn(*asked, "--", "sleep", "0.1", **stub.environment).result
    assert [(result["scope"], result["raw"][0]["scope"]) for result in (device, program)] == [
        ("device", "device"),
        ("process", "process"),
    ]
    assert [result["raw"][0]["attrs"]["bytes"] for result in (device, program)] == [30 * MIB, 0]
    assert (device["request"]["target"]["gpu"], device["request"]["target"]["uuid"]) == (0, "GPU-0001")


def test_memory_of_a_launched_program_is_its_trees(stub: Stub, omn: Command) -> None:
    """A shell that starts the program that holds the memory: the shell's own number is in no list."""
    stub.set(compute="1:777")
    write = f"echo 0.compute $$:{5 * MIB} >> {stub.state}"
    script = f"sed -i '/compute/d' {stub.state}; sh -c '{write}; exec sleep 2'; true"
    ran = omn("gpu.mem", "-e", "summary", "--interval", "100ms", *JSON, "--", "sh", "-c", script, **stub.environment)
    (series,) = ran.result["series"]
    assert series["emits"]["summary"]["max"] == 5 * MIB
    assert ran.result["backend"] == "vendor:nvml:process"


@pytest.mark.spec("SRC-6", "RUN-2")
def test_a_driver_that_blocks_delays_its_request_and_no_run(stub: Stub, omn: Command) -> None:
    """One call of a second: the run goes on, the ticks it swallowed are counted, the value's error is the call."""
    stub.set(temp=45, temp__sleep_ms=1000)
    ran = omn(
        "gpu.temp",
        "-e",
        "summary",
        "-e",
        "raw",
        "--interval",
        "100ms",
        "--gpu",
        "0",
        "-d",
        "3s",
        *JSON,
        **stub.environment,
    )
    result = ran.result
    assert ran.code == 0
    assert result["ts_err_ns"] >= 1_000_000_000
    assert result["losses"]["late_ticks"] > 0
    assert any("the driver held" in fact for fact in result["facts"])
    assert all(event["attrs"]["celsius"] == 45 for event in result["raw"])


@pytest.mark.spec("GPU-1", "RUN-9")
def test_a_device_that_vanishes_in_the_window_ends_its_request(stub: Stub, omn: Command) -> None:
    """What was read stands, the loss is counted, and the run says why it stopped."""
    stub.set(temp=45)
    script = f"sleep 0.3; echo 0.lost 1 >> {stub.state}; sleep 0.5"
    asked = ("gpu.temp", "-e", "raw", "--interval", "50ms", "--gpu", "0", *JSON)
    result = omn(*asked, "--", "sh", "-c", script, **stub.environment).result
    assert result["losses"]["failed_reads"] == 1
    assert "was lost (NVML: GPU is lost)" in result["losses"]["reasons"][0]
    assert result["stopped_because"]
    assert result["raw"]


@pytest.mark.spec("CAT-12", "RES-1")
def test_each_device_is_read_through_its_own_driver(stub: Stub, omn: Command, sysroot: Sysroot) -> None:
    """Beside NVIDIA's device a card of amdgpu: NVML is passed over with its reason, and what was never seen is said."""
    hwmon = "device/hwmon/hwmon0"
    files = {f"{hwmon}/temp1_input": "45000\n", f"{hwmon}/temp1_label": "edge\n", f"{hwmon}/name": "amdgpu\n"}
    write_card(sysroot, "card1", "amdgpu", "0000:0b:00.0", files)
    sysroot.link("proc", "/proc")
    stub.set(temp=60)
    asked = ("gpu.temp", "-m", "snapshot", "-e", "raw", *JSON)
    found = {
        name: omn(*asked, "--gpu", name, OMN_SYSROOT=str(sysroot), **stub.environment).result
        for name in ("0", "0b:00.0")
    }
    assert [result["raw"][0]["attrs"]["celsius"] for result in found.values()] == [60, 45.0]
    card = found["0b:00.0"]
    assert card["backend"] == "fs:hwmon"
    assert "which NVML does not know" in card["chain"][0]["reason"]
    (sentence,) = card["unverified"]
    assert sentence.startswith("gpu.temp through fs:hwmon was never run on its hardware: files written by hand")


@pytest.mark.spec("GPU-1")
def test_energy_is_one_closing_figure(stub: Stub, omn: Command) -> None:
    """What the counter grew by while the program ran, in joules."""
    stub.set(energy=1_000_000)
    script = f"sed -i 's/^0.energy .*/0.energy 1012500/' {stub.state}"
    ran = omn(
        "gpu.power", "-m", "count", "-e", "count", "--gpu", "0", *JSON, "--", "sh", "-c", script, **stub.environment
    )
    assert ran.result["series"][0]["emits"]["count"]["value"] == 12.5
    assert ran.result["unit"] == "joules"


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("gpu.temp", "--", "true"), 2, "name it with --gpu"),
        (("gpu.processes", "--pid", "1", "-d", "1s"), 2, "ask gpu.mem for what a process holds of it"),
        (("gpu.temp", "--gpu", "7", "-d", "1s"), 1, "there is no graphics device '7'"),
        (
            ("gpu.power", "-m", "count", "-e", "count", "--gpu", "0", "-d", "1s"),
            1,
            "does not report its energy counter",
        ),
        (("gpu.kernel", "-e", "count", "--", "true"), 3, "the injection library is not written yet"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_its_sentence(
    stub: Stub, omn: Command, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    """Each is told whose gap it is and what would serve."""
    ran = omn(*arguments, **stub.environment)
    assert (ran.code, sentence in ran.stderr) == (code, True), ran.stderr


def test_an_ordinary_user_reads_a_device(stub: Stub) -> None:
    """NVML asks for no privilege; the answers are those of root."""
    stub.set(temp=45, compute="")
    stub.state.chmod(0o644)
    for folder in [stub.state.parent, *stub.state.parents, *stub.library.parents]:
        if folder.stat().st_uid and folder.is_relative_to("/tmp/pytest-of"):
            folder.chmod(0o755)
    printed = run_as_another_user(
        f"""
        import ctypes, os, pynvml
        os.environ["OMN_STUB_NVML"] = {str(stub.state)!r}
        ctypes.CDLL({str(stub.library)!r})
        from omn_core.api import ProbeContext, Target
        from omn_core.catalog.load import load_catalog
        from omn_core.plugins import discover
        from omn_core.testing.harness import Driver, resolve_onto
        from omn_gpu.devices import bind_gpu
        from omn_gpu.temperature import DeviceTemperature
        entry = load_catalog(discover()).entries["gpu.temp"]
        state = open({str(stub.state)!r})
        os.environ["OMN_STUB_NVML"] = f"/proc/self/fd/{{state.fileno()}}"
        """,
        """
        target = bind_gpu(Target("gpu", "0"), ProbeContext("gpu"))
        with Driver(DeviceTemperature(), resolve_onto(entry, "vendor:nvml", target.target), target) as driver:
            print([row["celsius"] for row in driver.sample()])
        """,
    )
    assert printed == "[45]\n"

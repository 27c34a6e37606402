"""Every mechanism of programs in the kernel, chosen by its name, where it cannot serve: whose it is, in what words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from another_user import run_as_another_user
from program_rows import ALWAYS_THERE, ROWS, choose_target, find_refusal, make_target

from omn_core.errors import MachineRefused, RequestError
from omn_core.testing.sysroot import Sysroot

# What is imported on the way is imported by a user who can: catalogs are parsed by both.
IMPORTS = f"""
import json, os, sys
os.environ["OMN_CACHE_DIR"] = "/proc/no-cache"
sys.path.insert(0, {str(Path(__file__).parents[1] / "support")!r})
import program_rows
program_rows.load_probes()
for entry, backend in program_rows.ROWS.values():
    program_rows.find_refusal(entry, backend, program_rows.choose_target(entry, backend))
"""
ASKING = """
said = {}
for name, (entry, backend) in program_rows.ROWS.items():
    refused = program_rows.find_refusal(entry, backend, program_rows.choose_target(entry, backend))
    said[name] = type(refused).__name__, str(refused)
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def told_nobody() -> dict[str, tuple[str, str]]:
    """What each mechanism says to a user without capabilities: one process asks all of them."""
    said: dict[str, tuple[str, str]] = json.loads(run_as_another_user(IMPORTS, ASKING))
    return said


@pytest.mark.spec("PRB-6", "REQ-9")
@pytest.mark.parametrize("name", ROWS)
def test_a_user_without_capabilities_is_told_which(told_nobody: dict[str, tuple[str, str]], name: str) -> None:
    """Of each mechanism by itself, whatever others of its source would serve."""
    entry, backend = ROWS[name]
    if find_refusal(entry, backend, choose_target(entry, backend)) is not None:
        pytest.skip("this machine does not serve it to this user either")
    kind, sentence = told_nobody[name]
    assert kind == MachineRefused.__name__
    assert "through the pinned backend" in sentence
    assert "CAP_" in sentence


@pytest.mark.parametrize("name", ROWS)
def test_a_target_that_it_does_not_serve_is_the_requests(name: str) -> None:
    """Wrong on every machine, whatever else the source would answer it with."""
    entry, backend = ROWS[name]
    other = next((kind for kind in ALWAYS_THERE | {"pid": ""} if kind not in entry.targets_of(backend)), None)
    assert other is not None
    refused = find_refusal(entry, backend, make_target(other))
    assert isinstance(refused, RequestError), refused


@pytest.mark.usefixtures("loads_programs")
@pytest.mark.parametrize(
    "name", [name for name, (_, one) in ROWS.items() if any(need.kind in ("btf", "tp") for need in one.requires)]
)
def test_what_the_kernel_does_not_tell_is_the_machines(sysroot: Sysroot, name: str) -> None:
    """A machine that publishes no types and has no tracefs mounted, in the mechanism's own words.

    Its clocks change and it can be cooled, so that nothing else is in the way.
    """
    sysroot.write("proc/self/mountinfo", "23 1 0:21 / /proc rw - proc proc rw\n")
    sysroot.write("sys/devices/system/cpu/cpufreq/policy0/stats/total_trans", "1\n")
    for file, content in {"type": "Processor", "cur_state": "0"}.items():
        sysroot.write(f"sys/class/thermal/cooling_device0/{file}", f"{content}\n")
    entry, backend = ROWS[name]
    kinds = entry.targets_of(backend)
    target = make_target("system" if "system" in kinds else "pid")
    refused = find_refusal(entry, backend, target, str(sysroot))
    assert isinstance(refused, MachineRefused), refused
    assert backend.id in refused.reason
    assert any(word in refused.reason for word in ("BTF", "tracefs", "type information")), refused

"""The graphics family's table of contents: nothing but rows. No collector and no vendor's binding is imported here."""

from __future__ import annotations

from omn_core.api import CollectorRow, RequirementRow, TargetRow, hookimpl

OMN_CONTRACT = "1.0"


@hookimpl
def omn_catalog() -> str:
    """Return this package: `catalog.yaml` lies beside this module."""
    return "omn_gpu"


@hookimpl
def omn_collectors() -> list[CollectorRow]:
    """Return what this family collects."""
    return [
        CollectorRow("gpu.util", "vendor:nvml", "omn_gpu.utilization:DeviceUse"),
        CollectorRow("gpu.util", "vendor:nvml:process", "omn_gpu.utilization:TreeUse", several_processes=True),
        CollectorRow("gpu.mem", "vendor:nvml", "omn_gpu.memory:DeviceMemory"),
        CollectorRow("gpu.mem", "vendor:nvml:process", "omn_gpu.memory:TreeMemory", several_processes=True),
        CollectorRow("gpu.power", "vendor:nvml", "omn_gpu.energy:DeviceEnergy"),
        CollectorRow("gpu.temp", "vendor:nvml", "omn_gpu.temperature:DeviceTemperature"),
        CollectorRow("gpu.clocks", "vendor:nvml", "omn_gpu.clocks:DeviceClocks"),
        CollectorRow("gpu.pcie", "vendor:nvml", "omn_gpu.pcie:DeviceThroughput"),
        CollectorRow("gpu.processes", "vendor:nvml", "omn_gpu.processes:DeviceProcesses"),
        CollectorRow("gpu.util", "fs:sys:amdgpu", "omn_gpu.cards:CardUse"),
        CollectorRow("gpu.mem", "fs:sys:amdgpu", "omn_gpu.cards:CardMemory"),
        CollectorRow("gpu.power", "fs:hwmon", "omn_gpu.cards:CardEnergy"),
        CollectorRow("gpu.temp", "fs:hwmon", "omn_gpu.cards:CardTemperature"),
        CollectorRow("gpu.clocks", "fs:sys:drm", "omn_gpu.cards:CardClocks"),
        CollectorRow("gpu.util", "fs:proc:fdinfo", "omn_gpu.clients:TreeUse", several_processes=True),
        CollectorRow("gpu.mem", "fs:proc:fdinfo", "omn_gpu.clients:TreeMemory", several_processes=True),
        CollectorRow("gpu.processes", "fs:proc:fdinfo", "omn_gpu.clients:CardProcesses"),
    ]


@hookimpl
def omn_requirements() -> list[RequirementRow]:
    """Return a row for each requirement class of the vendors' libraries and of the kernel's graphics drivers."""
    probes = "omn_gpu.probes"
    return [
        RequirementRow("nvml", f"{probes}:probe_nvml"),
        RequirementRow("cupti", f"{probes}:probe_cupti"),
        RequirementRow(
            "drm", f"{probes}:probe_drm", r"[a-z0-9|]+(:[A-Za-z0-9_./*]+)?", "drm:amdgpu:device/gpu_busy_percent"
        ),
    ]


@hookimpl
def omn_targets() -> list[TargetRow]:
    """Return the binder of `--gpu`."""
    return [TargetRow("gpu", "omn_gpu.devices:bind_gpu")]

"""The power family's table of contents: nothing but rows, and nothing imported for them."""

from __future__ import annotations

from omn_core.api import CollectorRow, RequirementRow, hookimpl

OMN_CONTRACT = "1.0"


@hookimpl
def omn_catalog() -> str:
    """Return this package: `catalog.yaml` lies beside this module."""
    return "omn_power"


@hookimpl
def omn_collectors() -> list[CollectorRow]:
    """Return what this family collects."""
    return [
        CollectorRow("power.freq", "pmu:msr", "omn_power.counted_clocks:CountedClocks"),
        CollectorRow("power.freq", "fs:sys:cpuinfo_avg_freq", "omn_power.clocks:AverageClocks"),
        CollectorRow("power.freq", "fs:sys:scaling_cur_freq", "omn_power.clocks:ScalingClocks"),
        CollectorRow("power.freq", "fs:proc:cpuinfo", "omn_power.clocks:CpuInfoClocks"),
        CollectorRow("power.freq", "bpf:raw_tp", "omn_power.frequency_events:FrequencyEvents"),
        CollectorRow("power.freq", "bpf:tp", "omn_power.frequency_events:FrequencyEvents"),
        CollectorRow("power.energy", "fs:sys:powercap", "omn_power.energy:PackageEnergy"),
        CollectorRow("power.energy", "pmu:power", "omn_power.counted_energy:CountedEnergy"),
        CollectorRow(
            "power.process_energy", "fs:sys:powercap", "omn_power.process_energy:ProcessEnergy", several_processes=True
        ),
        CollectorRow("power.temp", "fs:sys:sensors", "omn_power.temperatures:Temperatures"),
        CollectorRow("power.throttle", "fs:sys:thermal_throttle", "omn_power.throttling:Throttling"),
        CollectorRow("power.throttle", "bpf:raw_tp", "omn_power.cooling:Cooling"),
        CollectorRow("power.throttle", "bpf:tp", "omn_power.cooling:Cooling"),
        CollectorRow("power.battery", "fs:sys:power_supply", "omn_power.batteries:Batteries"),
        CollectorRow("power.cstate", "fs:sys:cpuidle", "omn_power.idle_states:IdleStates"),
        CollectorRow("power.cstate", "bpf:raw_tp", "omn_power.idle_events:IdleEvents"),
        CollectorRow("power.cstate", "bpf:tp", "omn_power.idle_events:IdleEvents"),
        CollectorRow("power.cstate", "pmu:cstate_core", "omn_power.core_states:CoreStates"),
    ]


@hookimpl
def omn_requirements() -> list[RequirementRow]:
    """Return the requirement classes that this family answers itself."""
    return [
        RequirementRow("cpufreq", "omn_power.probes:probe_cpufreq", r"transitions|\w+_freq", "cpufreq:transitions"),
        RequirementRow("rapl", "omn_power.probes:probe_rapl"),
        RequirementRow("temperature", "omn_power.probes:probe_temperature"),
        RequirementRow("thermal_throttle", "omn_power.probes:probe_thermal_throttle"),
        RequirementRow("cooling", "omn_power.probes:probe_cooling"),
        RequirementRow("battery", "omn_power.probes:probe_battery"),
        RequirementRow("cpu_mhz", "omn_power.probes:probe_cpu_mhz"),
    ]

"""power.freq: how fast each cpu's clock runs, by what cpufreq and /proc/cpuinfo say of it.

/sys/devices/system/cpu/cpufreq/policy<N>/{affected_cpus,scaling_cur_freq,cpuinfo_avg_freq}, in kHz:
Documentation/admin-guide/pm/cpufreq.rst and Documentation/ABI/testing/sysfs-devices-system-cpu. The `cpu MHz` lines of
/proc/cpuinfo: proc(5), on x86 alone.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import Generic, TypeVar

from omn_kernel.cpus import CpuPresence
from omn_kernel.polled import read_file
from omn_kernel.polling import PolledCollector, Rows
from omn_kernel.procfs.cpuinfo import has_clock_counters, parse_cpu_clocks

from omn_core.api import BoundTarget
from omn_power.policies import POLICIES, list_policies, read_policy

Content = TypeVar("Content")
HZ_PER_KHZ = 1000


class Clocks(PolledCollector[Content], ABC, Generic[Content]):
    """A row for each cpu. What is read speaks of the moments before the reading, so that none is made at the opening.

    A cpu that goes offline has no row from there.
    """

    def open_files(self, target: BoundTarget) -> None:
        """Begin with no cpu seen."""
        self.presence = CpuPresence(target.cpus, self.misses)

    def make_clock_rows(self, hertz: Mapping[int, int | None]) -> Rows:
        """Make the rows of some cpus' clocks, those left out that are unknown."""
        wanted = {cpu: clock for cpu, clock in hertz.items() if self.presence.is_wanted(cpu)}
        self.presence.observe(wanted)
        known = {cpu: clock for cpu, clock in sorted(wanted.items()) if clock is not None}
        return Rows.of_each([{"freq_hz": clock} for clock in known.values()], {"cpu": list(known)})

    def facts(self) -> tuple[str, ...]:
        """Say which cpus came and went."""
        return self.presence.facts()


class PolicyClocks(Clocks[dict[int, int | None]], ABC):
    """One file of each cpufreq policy, which is the clock of every cpu that the policy is for."""

    file: str

    def read(self) -> dict[int, int | None]:
        """Read the clock of each policy's cpus; None for those of a policy that gave none, which is counted."""
        hertz: dict[int, int | None] = {}
        for policy in list_policies(self.context.sysroot):
            cpus = read_policy(self.context.sysroot, policy)
            if any(map(self.presence.is_wanted, cpus)):
                hertz.update(dict.fromkeys(cpus, self._read_clock(policy)))
        return hertz

    def make_rows(self, content: dict[int, int | None], at_ns: int) -> Rows:
        """Return the rows."""
        return self.make_clock_rows(content)

    def _read_clock(self, policy: str) -> int | None:
        try:
            return int(read_file(self.context.sysroot, f"{POLICIES}/{policy}/{self.file}")) * HZ_PER_KHZ
        except OSError as error:
            self.misses.note(f"{self.file} of {policy}: {error.strerror}")
        except ValueError:
            self.misses.note(f"{self.file} of {policy} states no frequency")
        return None


class AverageClocks(PolicyClocks):
    """cpuinfo_avg_freq: what the hardware's own counters say of the last moments (Linux 6.16)."""

    file = "cpuinfo_avg_freq"


class ScalingClocks(PolicyClocks):
    """scaling_cur_freq: what was last asked of the hardware, or an average where the kernel has one."""

    file = "scaling_cur_freq"


class CpuInfoClocks(Clocks[bytes]):
    """The `cpu MHz` lines of /proc/cpuinfo."""

    def open_files(self, target: BoundTarget) -> None:
        """Open the file."""
        super().open_files(target)
        self._file = self.open_file("/proc/cpuinfo", many_records=True)
        self._is_counted = has_clock_counters(self._file.read())

    def read(self) -> bytes:
        """Read the file."""
        return self._file.read()

    def make_rows(self, content: bytes, at_ns: int) -> Rows:
        """Return the rows."""
        return self.make_clock_rows(parse_cpu_clocks(content))

    def degradations(self) -> tuple[str, ...]:
        """Say that the figure is fixed, where nothing counts the clock."""
        if self._is_counted:
            return ()
        return (
            "this processor shows no aperfmperf, so that each figure is the clock the kernel was given at its boot",
        )

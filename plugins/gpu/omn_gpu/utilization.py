"""gpu.util: the share of time in which a device ran kernels, by the samples that the driver takes of itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
from omn_kernel.polling import Rows

from omn_core.api import BoundTarget
from omn_gpu.asking import Answer, DeviceCollector, key_by_device
from omn_gpu.device import Device
from omn_gpu.nvml import Library, NvmlError
from omn_gpu.tree import TreeCollector

_BUSY, _MEMORY = 1, 2  # NVML_GPU_UTILIZATION_SAMPLES, NVML_MEMORY_UTILIZATION_SAMPLES
_FIELDS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")  # nvmlValueType_t, in order
_NS_PER_US = 1000


@attrs.frozen
class Sample:
    """A sample of the driver: when it took it, microseconds by its own clock, and the share."""

    at_us: int
    share: float


def list_samples(library: Library, device: Device, kind: int, after_us: int) -> list[Sample]:
    """List the driver's samples after one that was seen, oldest first. Raises NvmlError where it keeps none at all."""
    try:
        value_type, samples = library.call("nvmlDeviceGetSamples", device.handle, kind, after_us)
    except NvmlError as error:
        if error.is_empty:
            return []
        raise
    field = _FIELDS[value_type]
    found = [Sample(one.timeStamp, getattr(one.sampleValue, field) / 100) for one in samples]
    return sorted((one for one in found if one.at_us > after_us), key=lambda one: one.at_us)


def compute_mean(samples: Sequence[Sample]) -> float | None:
    """Compute the mean share, None of no samples."""
    return sum(sample.share for sample in samples) / len(samples) if samples else None


@attrs.frozen
class Use:
    """How busy a device was: its share, its memory's, over how many samples and how long where the driver says so."""

    util: float
    mem_util: float | None
    samples: int | None = None
    interval_ns: int | None = None


class DeviceUse(DeviceCollector[Use]):
    """A row for each device: the mean of the samples that the driver took since the last reading.

    Where the machine is not divided by device, the row of the busiest. A device without dated samples (NVML keeps
    none of it) answers with the driver's latest figure, of which no one can say whether it is a new one.
    """

    topic = "utilization"

    def open_files(self, target: BoundTarget) -> None:
        """Find the devices, and the last sample of each before the window."""
        self._seen_us: dict[Device, int] = {}
        super().open_files(target)

    def begin(self, device: Device) -> None:
        """Find out whether the driver dates its samples of a device."""
        try:
            samples = list_samples(self.library, device, _BUSY, 0)
        except NvmlError as error:
            if not error.is_unsupported:
                raise
            self.ask_latest(device)
            self.note_fact(f"the driver does not date its samples of {device}: one that it repeats cannot be told")
            return
        self._seen_us[device] = samples[-1].at_us if samples else 0

    def ask(self, device: Device) -> Use | None:
        """Ask for the samples since the last reading."""
        seen_us = self._seen_us.get(device)
        if seen_us is None:
            return self.ask_latest(device)
        samples = list_samples(self.library, device, _BUSY, seen_us)
        busy = compute_mean(samples)
        if busy is None:
            return None
        self._seen_us[device] = samples[-1].at_us
        length_ns = (samples[-1].at_us - seen_us) * _NS_PER_US if seen_us else None
        return Use(busy, self._ask_memory(device, seen_us), len(samples), length_ns)

    def ask_latest(self, device: Device) -> Use:
        """Ask for the driver's latest figure."""
        rates = self.library.call("nvmlDeviceGetUtilizationRates", device.handle)
        return Use(rates.gpu / 100, rates.memory / 100)

    def _ask_memory(self, device: Device, seen_us: int) -> float | None:
        try:
            return compute_mean(list_samples(self.library, device, _MEMORY, seen_us))
        except NvmlError:
            return None

    def make_device_rows(self, answers: list[Answer[Use]], at_ns: int) -> Rows:
        """Return the rows."""
        if not self.resolved.is_divided_by("gpu"):
            answers = [max(answers, key=lambda answer: answer.told.util)]
        uses = [attrs.asdict(answer.told) for answer in answers]
        return Rows(
            key_by_device(answers),
            {name: [use[name] for use in uses] for name in uses[0] if any(use[name] is not None for use in uses)},
            [answer.began_ns for answer in answers],
        )


_PARTS = {"util": "smUtil", "mem_util": "memUtil", "enc_util": "encUtil", "dec_util": "decUtil"}


class TreeUse(TreeCollector[list[Any]]):
    """A row for each device of what the tree used of it, or of each of its processes where `task` is asked for.

    The driver tells of processes that used something in its last period. One that it does not name used nothing, where
    it sampled the device at all since the last reading.
    """

    topic = "processes' utilization"

    def open_files(self, target: BoundTarget) -> None:
        """Find the tree, the devices, and the last sample of each before the window."""
        self._seen_us: dict[Device, int] = {}
        super().open_files(target)

    def begin(self, device: Device) -> None:
        """Find what was sampled before the window."""
        self._seen_us[device] = max((one.timeStamp for one in self._list(device, 0)), default=0)
        self._seen_us[device] = max(self._seen_us[device], self._find_newest(device) or 0)

    def ask(self, device: Device) -> list[Any] | None:
        """Ask for the shares of processes since the last reading, and keep the tree's."""
        seen_us = self._seen_us[device]
        told = [one for one in self._list(device, seen_us) if one.timeStamp > seen_us]
        newest = max((one.timeStamp for one in told), default=None) or self._find_newest(device)
        if newest is None:
            return None
        self._seen_us[device] = max(seen_us, newest)
        return [one for one in told if one.pid in self.members and one.smUtil <= 100]

    def _list(self, device: Device, after_us: int) -> list[Any]:
        try:
            return list(self.library.call("nvmlDeviceGetProcessUtilization", device.handle, after_us))
        except NvmlError as error:
            if error.is_empty:
                return []
            raise

    def _find_newest(self, device: Device) -> int | None:
        """Find when the driver last sampled the device after what was seen; None where it did not, or does not say."""
        try:
            samples = list_samples(self.library, device, _BUSY, self._seen_us.get(device, 0))
        except NvmlError:
            return None
        return samples[-1].at_us if samples else None

    def make_device_rows(self, answers: list[Answer[list[Any]]], at_ns: int) -> Rows:
        """Return the rows; those of several devices that are not told apart are of the one that it used most."""
        if not self.can_tell(one.pid for answer in answers for one in answer.told):
            return Rows()
        if self.resolved.is_divided_by("task"):
            rows = [(answer, [one]) for answer in answers for one in answer.told]
            keys = {"task": [told[0].pid for _, told in rows]}
        else:
            rows, keys = [(answer, answer.told) for answer in answers], {}
            if not self.resolved.is_divided_by("gpu"):
                rows = [max(rows, key=lambda row: _add(row[1], "smUtil"))]
        if not rows:
            return Rows()
        return Rows(
            {"gpu": [answer.device.index for answer, _ in rows], **keys},
            {name: [_add(told, field) for _, told in rows] for name, field in _PARTS.items()},
            [answer.began_ns for answer, _ in rows],
        )


def _add(told: Sequence[Any], field: str) -> float:
    return float(sum(getattr(one, field) for one in told)) / 100

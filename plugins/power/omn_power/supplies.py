"""The batteries of this machine, and what the kernel says of one.

/sys/class/power_supply/<name>/{type,scope,uevent}: Documentation/ABI/testing/sysfs-class-power and
Documentation/power/power_supply_class.rst. `uevent` holds every property that the driver can read at that instant, in
millionths of a watt, an ampere, a volt, a watt-hour and an ampere-hour.
"""

from __future__ import annotations

import os

from omn_kernel.polled import place, read_file

SUPPLIES = "/sys/class/power_supply"
_PREFIX = b"POWER_SUPPLY_"
_MILLION = 1_000_000
_SECONDS_PER_HOUR = 3600


def list_batteries(sysroot: str) -> list[str]:
    """List the machine's batteries by name; those that power something attached to it (a mouse) are left out."""
    try:
        names = sorted(os.listdir(place(sysroot, SUPPLIES)))
    except OSError:
        return []
    return [
        name
        for name in names
        if _find_word(sysroot, name, "type") == b"Battery" and _find_word(sysroot, name, "scope") != b"Device"
    ]


def _find_word(sysroot: str, name: str, file: str) -> bytes | None:
    try:
        return read_file(sysroot, f"{SUPPLIES}/{name}/{file}").strip()
    except OSError:
        return None


def parse_supply(content: bytes) -> dict[str, str]:
    """Parse a supply's uevent by its properties' names (`ENERGY_NOW`). What its driver cannot read has no line."""
    properties: dict[str, str] = {}
    for line in content.split(b"\n"):
        name, equals, value = line.partition(b"=")
        if equals and name.startswith(_PREFIX):
            properties[name.removeprefix(_PREFIX).decode()] = value.decode("utf-8", "backslashreplace").strip()
    return properties


def compute_battery(properties: dict[str, str]) -> dict[str, float | str | None]:
    """Compute what a battery's row says; what its driver does not state is None.

    Some drivers give power, others current, whose sign some turn with its direction: amounts are given without it, and
    `status` says which way. Watts of the latter are current times voltage.
    """
    power, current = _find_amount(properties, "POWER_NOW"), _find_amount(properties, "CURRENT_NOW")
    volts = _find_amount(properties, "VOLTAGE_NOW")
    watts = power
    if watts is None and current is not None and volts is not None:
        watts = current * volts
    percent = _find_number(properties, "CAPACITY")
    return {
        "watts": None if watts is None else abs(watts),
        "amperes": None if current is None else abs(current),
        "volts": volts,
        "capacity": None if percent is None else percent / 100,
        "remaining_joules": _find_hours(properties, "ENERGY_NOW"),
        "full_joules": _find_hours(properties, "ENERGY_FULL"),
        "remaining_coulombs": _find_hours(properties, "CHARGE_NOW"),
        "full_coulombs": _find_hours(properties, "CHARGE_FULL"),
        "status": properties.get("STATUS"),
    }


def _find_number(properties: dict[str, str], name: str) -> int | None:
    try:
        return int(properties[name])
    except (KeyError, ValueError):
        return None


def _find_amount(properties: dict[str, str], name: str) -> float | None:
    number = _find_number(properties, name)
    return None if number is None else number / _MILLION


def _find_hours(properties: dict[str, str], name: str) -> float | None:
    """Find an amount of watt-hours or ampere-hours, as joules or coulombs."""
    number = _find_number(properties, name)
    return None if number is None else number * _SECONDS_PER_HOUR / _MILLION

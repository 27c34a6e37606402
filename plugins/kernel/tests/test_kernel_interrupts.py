"""What /proc/interrupts and /proc/softirqs hold, as several machines write them."""

from __future__ import annotations

from pathlib import Path

import pytest
from omn_kernel.procfs.interrupts import parse_counts, parse_description, parse_interrupts

X86 = b"""            CPU0       CPU2
   0:         33          0   IO-APIC   2-edge      timer
  16:        100      20000   IO-APIC  16-fasteoi   ehci_hcd:usb1, uhci hcd:usb2
 NMI:          1          2   Non-maskable interrupts
 ERR:          3
 MIS:          4
"""
ARM = b"""           CPU0       CPU1
 11:    4294967295          7     GICv3  30 Level     arch_timer
IPI0:          5          6       Rescheduling interrupts
Err:          0
"""


def test_a_line_is_its_label_its_counts_and_what_the_kernel_says_of_it() -> None:
    """A column stands for the cpu that heads it; the two lines of hardware faults are no interrupts."""
    table = parse_interrupts(X86)
    assert table.cpus == (0, 2)
    assert list(table.lines) == ["0", "16", "NMI"]
    assert parse_counts(table.lines["16"], 2) == (100, 20000)
    assert parse_description(table.lines["16"], 2) == "IO-APIC 16-fasteoi ehci_hcd:usb1, uhci hcd:usb2"


def test_another_architectures_lines_are_read_alike() -> None:
    """Interrupts between cpus have names there, and the line of faults another case."""
    table = parse_interrupts(ARM)
    assert list(table.lines) == ["11", "IPI0"]
    assert parse_counts(table.lines["11"], 2) == (4294967295, 7)


def test_a_line_of_digits_behind_the_counts_is_no_count() -> None:
    """Deferred work has no description, and a description may begin with a number."""
    table = parse_interrupts(b"  CPU0  CPU1\n HI:  5  0\n 9:  1  2  3-edge x\n")
    assert (parse_counts(table.lines["HI"], 2), parse_description(table.lines["HI"], 2)) == ((5, 0), "")
    assert (parse_counts(table.lines["9"], 2), parse_description(table.lines["9"], 2)) == ((1, 2), "3-edge x")


@pytest.mark.parametrize("name", ["interrupts", "softirqs"])
def test_this_kernels_own_are_read(name: str) -> None:
    """As many counts as there are columns, in every line."""
    table = parse_interrupts(Path(f"/proc/{name}").read_bytes())
    assert table.lines
    assert {len(parse_counts(line, len(table.cpus))) for line in table.lines.values()} == {len(table.cpus)}

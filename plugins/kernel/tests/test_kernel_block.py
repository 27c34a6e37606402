"""Block devices in sysfs, and the binder of `--dev`: each way of not being one has its sentence."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from omn_kernel.block import BlockDevice, get_block_device, list_block_devices, read_block_device
from omn_kernel.targets import bind_dev

from omn_core.api import MachineRefused, ProbeContext, Target
from omn_core.testing.sysroot import Sysroot


@pytest.fixture
def machine(sysroot: Sysroot) -> Sysroot:
    """A disk with a partition, a mirror, a loop device, a controller's disk with a slash in its name."""
    sysroot.write_block_device("sda", "8:0")
    sysroot.write_block_device("sda1", "8:1", whole="sda")
    sysroot.write_block_device("sdb", "8:16")
    sysroot.write_block_device("md0", "9:0", stands_on=("sda1", "sdb"))
    sysroot.write_block_device("loop0", "7:0", backing_file="/images/a file.img")
    sysroot.write_block_device("cciss/c0d0", "104:0")
    return sysroot.write_block_device("cciss/c0d0p1", "104:1", whole="cciss/c0d0")


def test_a_device_is_read_with_what_it_is_part_of_and_stands_on(machine: Sysroot) -> None:
    """Partitions name their device, stacked devices those below, a loop device its file."""
    root = str(machine)
    assert read_block_device(root, "sda") == BlockDevice("sda", "8:0")
    assert read_block_device(root, "sda1") == BlockDevice("sda1", "8:1", whole="sda")
    assert read_block_device(root, "md0").stands_on == ("sda1", "sdb")
    assert read_block_device(root, "loop0").stands_on == ("a file",)
    assert read_block_device(root, "cciss/c0d0p1") == BlockDevice("cciss/c0d0p1", "104:1", whole="cciss/c0d0")
    assert list_block_devices(root) == ["cciss/c0d0", "cciss/c0d0p1", "loop0", "md0", "sda", "sda1", "sdb"]


def test_a_queue_whose_accounting_is_off_is_seen(sysroot: Sysroot) -> None:
    """Of its partitions too; a device of bios alone shows 0 there and keeps accounts of its own."""
    sysroot.write_block_device("sda", "8:0", is_accounted=False)
    sysroot.write_block_device("sda1", "8:1", whole="sda")
    sysroot.write_block_device("zram0", "253:0", is_accounted=False)
    sysroot.remove("sys/class/block/zram0/mq")
    assert [read_block_device(str(sysroot), name).is_counted for name in ("sda", "sda1", "zram0")] == [
        False,
        False,
        True,
    ]


def test_a_hidden_path_is_seen(sysroot: Sysroot) -> None:
    """A path of a multipath disk, which the kernel keeps from users."""
    sysroot.write_block_device("nvme0c0n1", "259:1", is_hidden=True)
    assert read_block_device(str(sysroot), "nvme0c0n1").is_hidden


@pytest.mark.spec("EVT-5")
def test_a_name_is_bound_to_its_number(machine: Sysroot) -> None:
    """The kernel's name is enough, with a slash in it too; results say the number and what it is a partition of."""
    bound = bind_dev(Target("dev", "sda1"), ProbeContext(sysroot=str(machine)))
    assert bound.place == BlockDevice("sda1", "8:1", whole="sda")
    assert (bound.scope, bound.described) == ("device", {"dev": "sda1", "number": "8:1", "partition_of": "sda"})
    assert bind_dev(Target("dev", "cciss/c0d0"), ProbeContext(sysroot=str(machine))).place.number == "104:0"


@pytest.mark.parametrize("name", ["sdz", "..", ".", "../../etc", "sda/queue", "8:0"])
def test_a_name_that_no_device_has_is_refused_with_those_there_are(machine: Sysroot, name: str) -> None:
    """Nothing leads out of the class, and the remedy names what can be asked for."""
    with pytest.raises(MachineRefused, match="there is no block device") as refused:
        get_block_device(str(machine), name)
    assert refused.value.remedy is not None
    assert "sda, sda1, sdb" in refused.value.remedy


def test_a_path_that_is_no_device_says_what_it_is(machine: Sysroot) -> None:
    """A file, a folder, nothing: each with its own words."""
    machine.write("/dev/plain", "x")
    for path, words in (
        ("/dev/plain", "it is a regular file"),
        ("/dev", "it is a folder"),
        ("/dev/sdz", "there is no"),
    ):
        with pytest.raises(MachineRefused, match=words):
            get_block_device(str(machine), path)


def test_a_machine_without_block_devices_has_no_advice(sysroot: Sysroot) -> None:
    """A place without sysfs refuses by the name alone."""
    with pytest.raises(MachineRefused) as refused:
        get_block_device(str(sysroot), "sda")
    assert refused.value.remedy is None


def find_node() -> tuple[str, Path]:
    """Return a block device of this machine that has a node, and the node; skips where there is none."""
    for name in list_block_devices("/"):
        if (node := Path(f"/dev/{name}")).is_block_device():
            return name, node
    pytest.skip("no block device has a node here")


def test_a_node_and_a_link_to_it_lead_to_the_name(tmp_path: Path) -> None:
    """As /dev/disk/by-id and /dev/mapper do."""
    name, node = find_node()
    (tmp_path / "by-id").symlink_to(node)
    found = get_block_device("/", str(tmp_path / "by-id"))
    assert found == get_block_device("/", str(node)) == get_block_device("/", name)
    number = node.stat().st_rdev
    assert found.number == f"{os.major(number)}:{os.minor(number)}"


def test_a_character_device_and_a_file_of_this_machine_are_refused(tmp_path: Path) -> None:
    """A file is told the device of its file system, where it has one."""
    with pytest.raises(MachineRefused, match="'/dev/null' is no block device: it is a character device"):
        get_block_device("/", "/dev/null")
    with pytest.raises(MachineRefused, match="it is a folder"):
        get_block_device("/", str(tmp_path))


def test_a_node_whose_device_is_not_there_is_refused(tmp_path: Path) -> None:
    """A node can outlive its device."""
    node = tmp_path / "gone"
    try:
        os.mknod(node, 0o600 | 0o060000, os.makedev(8, 250))
    except OSError as error:
        pytest.skip(f"no device node can be made here: {error.strerror}")
    if Path("/sys/dev/block/8:250").exists():
        pytest.skip("this machine has a device 8:250")
    with pytest.raises(MachineRefused, match="is the node of block device 8:250, which is not there"):
        get_block_device("/", str(node))

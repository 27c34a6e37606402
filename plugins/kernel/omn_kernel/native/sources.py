"""What the native modules are built of, as one number. The build reads this file before there is a package."""

import os
import zlib

_MASK = 0xFFFFFFFF


def list_sources(folder: str, script: str) -> list[str]:
    """List the C sources and headers of a folder, and the script that describes the modules, in a fixed order."""
    names = sorted(name for name in os.listdir(folder) if name.endswith((".c", ".h")) and not name.startswith("_"))
    return [*(os.path.join(folder, name) for name in names), script]


def compute_stamp(paths: list[str]) -> int:
    """Compute a number that tells what files hold: 32 bits, of their names and their bytes."""
    stamp = 0
    for path in paths:
        with open(path, "rb") as file:
            stamp = zlib.crc32(os.path.basename(path).encode() + b"\0" + file.read(), stamp)
    return stamp & _MASK

"""Debian's cloud kernels: found in the machine's own archive, downloaded, and kept by the hash of what was downloaded.

Nothing is installed: apt works on a state of its own, under the cache folder, and root is not needed.
"""

from __future__ import annotations

import json
import lzma
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import attrs

SERIES = {
    "5.10": "bullseye",
    "6.1": "bookworm",
    "6.12": "trixie",
    "6.18": "trixie-backports",
    "7": "trixie-backports",
}
"""Each series of kernels that is booted, and the release of Debian that has it."""

_FRESH_S = 24 * 3600
"""How long the archive's answer, which kernel of a series is the newest, is taken for true."""

_PACKAGE = r"linux-(image|binary)-({series}\.\d[\w.+~-]*)-cloud-amd64"
"""What a kernel's package is called. From 7.x on Debian has the kernel itself in linux-binary."""

MODULES = ("inet_diag", "tcp_diag", "udp_diag", "cpufreq_userspace", "acpi-cpufreq")
"""What guests load, in this order: Debian builds the listing of sockets as modules, and what sets cpus' clocks."""

_KEY = "/usr/share/keyrings/debian-archive-keyring.gpg"
_LEAST_KERNEL_BYTES = 1 << 20


class Unreachable(Exception):
    """Kernels that cannot be had here, with the machine's reason in one sentence."""


@attrs.frozen
class Kernel:
    """One kernel: its series, Debian's name for its version, the file that boots, and the modules that guests load."""

    series: str
    version: str
    image: Path
    modules: tuple[Path, ...]


def find_cache() -> Path:
    """Return the folder that kernels are kept in: OMN_PORTABILITY_CACHE, else the user's cache folder."""
    named = os.environ.get("OMN_PORTABILITY_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "omn-portability"


def get_kernels(wanted: Iterable[str], cache: Path) -> dict[str, Kernel]:
    """Return the newest kernel of each series, downloaded where it is not kept yet.

    Where the archive cannot be reached, what is kept serves. Raises Unreachable when that is not enough.
    """
    if platform.machine() != "x86_64":
        raise Unreachable(f"guests are x86-64, and this machine is {platform.machine()}")
    series = list(wanted)
    known = _read_known(cache)
    if not all(_is_fresh(known.get(one)) for one in series):
        try:
            known = {**known, **_ask_archive(series, cache)}
        except Unreachable:
            if not all(_find_kept(known.get(one), cache) for one in series):
                raise
        else:
            _write_whole(cache / "newest.json", json.dumps(known, indent=1).encode())
    return {one: _get_kernel(known[one], one, cache) for one in series}


def _read_known(cache: Path) -> dict[str, dict[str, str]]:
    try:
        known: dict[str, dict[str, str]] = json.loads((cache / "newest.json").read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return known


def _is_fresh(known: Mapping[str, str] | None) -> bool:
    return known is not None and time.time() - float(known["asked_at"]) < _FRESH_S


def _find_kept(known: Mapping[str, str] | None, cache: Path) -> Path | None:
    """Find the folder in which the kernel and its modules are kept: those that guests load now."""
    path = None if known is None else _name_folder(known, cache)
    return path if path is not None and path.is_dir() else None


def _name_folder(known: Mapping[str, str], cache: Path) -> Path:
    """Name the folder of a kernel and its modules, which is there whole or not at all."""
    return cache / f"{known['sha256']}-{zlib.crc32(' '.join(MODULES).encode()):08x}"


def _write_whole(path: Path, content: bytes) -> None:
    """Write a file so that nobody ever sees a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    os.replace(file.name, path)


def _run(*command: str, cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=cwd, timeout=300)
    except FileNotFoundError as error:
        raise Unreachable(f"{command[0]} is not installed here") from error
    except subprocess.TimeoutExpired as error:
        raise Unreachable("the archive of kernels did not answer within 300 s") from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().splitlines() or ["it said nothing"]
        raise Unreachable(f"the archive of kernels cannot be reached: {said[0]}") from error
    return done.stdout


def _ask_archive(series: Iterable[str], cache: Path) -> dict[str, dict[str, str]]:
    """Return the version, package and hash of the newest kernel of each series."""
    options = _make_options({SERIES[one] for one in series}, cache)
    _run("apt-get", "-qq", *options, "-o", "APT::Update::Error-Mode=any", "update")
    names = _run("apt-cache", *options, "pkgnames", "linux-").split()
    found = {}
    for one in series:
        version, package = _choose_newest(one, names)
        shown = _run("apt-cache", *options, "--no-all-versions", "show", package)
        digest = re.search(r"^SHA256: ([0-9a-f]{64})$", shown, re.M)
        if digest is None:
            raise Unreachable(f"the archive of kernels states no hash of {package}")
        found[one] = {"version": version, "package": package, "sha256": digest[1], "asked_at": str(int(time.time()))}
        modules = f"linux-modules-{version}-cloud-amd64"
        if modules in names:
            found[one]["modules"] = modules
    return found


def _choose_newest(series: str, names: Iterable[str]) -> tuple[str, str]:
    """Return the newest version of a series and the package that holds its kernel."""
    pattern = re.compile(_PACKAGE.format(series=re.escape(series)))
    packages = [(match[2], match[1], name) for name in names if (match := pattern.fullmatch(name))]
    if not packages:
        raise Unreachable(f"the archive of kernels has none of the series {series} any more")
    # Where a version has both, `binary` holds the kernel and `image` only depends on it.
    version, _, package = max(packages, key=lambda one: (_numbers(one[0]), one[1] == "binary"))
    return version, package


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def _make_options(suites: set[str], cache: Path) -> list[str]:
    """Return apt's options for a private state whose sources are the machine's own mirrors."""
    state = cache / "apt"
    for folder in ("lists/partial", "archives/partial"):
        (state / folder).mkdir(parents=True, exist_ok=True)
    mirrors = set(_run("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages").split())
    lines = []
    for suite in sorted(suites):
        main = _find_mirror(mirrors, "debian")
        lines.append(f"deb [signed-by={_KEY}] {main} {suite} main")
        if "backports" not in suite:
            lines.append(f"deb [signed-by={_KEY}] {_find_mirror(mirrors, 'debian-security')} {suite}-security main")
    _write_whole(state / "sources.list", "\n".join([*lines, ""]).encode())
    settings = {
        "Dir::Etc::sourcelist": state / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": state / "lists",
        "Dir::Cache": state,
        "Dir::Cache::archives": state / "archives",
        "Acquire::Languages": "none",
        "APT::Architecture": "amd64",
        "APT::Sandbox::User": "root",
    }
    return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]


def _find_mirror(mirrors: Iterable[str], name: str) -> str:
    for mirror in sorted(mirrors):
        if mirror.rstrip("/").endswith(f"/{name}"):
            return mirror
    raise Unreachable(f"the archive of kernels cannot be reached: apt knows no mirror of {name} here")


def _get_kernel(known: Mapping[str, str], series: str, cache: Path) -> Kernel:
    """Return the kernel as it is kept, downloaded and taken out of its packages where it is not."""
    folder = _find_kept(known, cache)
    if folder is None:
        folder = _name_folder(known, cache)
        options = _make_options({SERIES[series]}, cache)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            packages = [known["package"], *([known["modules"]] if "modules" in known else [])]
            _run("apt-get", "-qq", *options, "download", *packages, cwd=Path(scratch))
            for package in Path(scratch).glob("*.deb"):
                _run("dpkg-deb", "-x", str(package), f"{scratch}/content")
            os.replace(_take_out(Path(scratch)), folder)
    modules = tuple(folder / f"{name}.ko" for name in MODULES)
    return Kernel(series, known["version"], folder / "vmlinuz", modules)


def _take_out(scratch: Path) -> Path:
    """Gather the kernel and its modules in one folder, the modules as they were before they were compressed."""
    whole = scratch / "whole"
    whole.mkdir()
    found = list((scratch / "content").rglob("*"))
    kernels = [path for path in found if path.name.startswith("vmlinuz") and path.stat().st_size > _LEAST_KERNEL_BYTES]
    shutil.move(kernels[0], whole / "vmlinuz")
    for name in MODULES:
        path = next(path for path in found if path.name.partition(".ko")[0] == name)
        content = path.read_bytes()
        (whole / f"{name}.ko").write_bytes(lzma.decompress(content) if path.suffix == ".xz" else content)
    return whole

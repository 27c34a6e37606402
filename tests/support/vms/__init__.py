"""Debian's kernels, booted in QEMU with this environment inside: what `tests/portability` runs on."""

"""Name the native modules to setuptools, which has no field for them in pyproject.toml."""

from setuptools import setup

setup(
    cffi_modules=["build_calls.py:builder", "build_bpf.py:builder", "build_perf.py:builder", "build_unwind.py:builder"]
)

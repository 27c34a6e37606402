"""Name the native module to setuptools, which has no field for it in pyproject.toml."""

from setuptools import setup

setup(cffi_modules=["build_calls.py:builder"])

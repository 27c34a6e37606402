"""Name the native modules to setuptools, which has no field for them in pyproject.toml, and the library beside them."""

from __future__ import annotations

from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

NATIVE = Path("omn_kernel", "native")
HEAP = "omn_kernel.native.libomn_heap"
FLAGS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-fvisibility=hidden", "-fno-omit-frame-pointer", "-fno-builtin"]


class BuildLibrary(build_ext):
    """Builds the library that programs are started with as well: its file bears no suffix of Python's."""

    def get_ext_filename(self, fullname: str) -> str:
        """Return the file of an extension, and of the library its plain name."""
        if not fullname.endswith("libomn_heap"):
            return super().get_ext_filename(fullname)
        return str(Path(*fullname.split(".")).with_suffix(".so"))

    def get_export_symbols(self, ext: Extension) -> list[str]:
        """Return the functions that are called by name, of the library none: its source says."""
        return [] if ext.name == HEAP else super().get_export_symbols(ext)


setup(
    cmdclass={"build_ext": BuildLibrary},
    cffi_modules=[f"build_native.py:{name}" for name in ("calls", "bpf", "perf", "unwind", "injected")],
    ext_modules=[
        Extension(
            HEAP,
            [str(NATIVE / name) for name in ("heap.c", "injecting.c")],
            include_dirs=[str(NATIVE)],
            depends=[str(NATIVE / name) for name in ("heap.h", "injecting.h", "injected.h")],
            extra_compile_args=FLAGS,
            extra_link_args=["-Wl,-z,now"],
            libraries=["dl", "pthread"],
        )
    ],
)

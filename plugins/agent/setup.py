"""Compile what hooks run, a program and no module, where there is a compiler; without one omn-agent installs too."""

from __future__ import annotations

from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CCompilerError, ExecError, LinkError, PlatformError

SOURCES = ["client.c", "filter.c", "json_scan.c"]
FLAGS = ["-std=gnu11", "-O2", "-Wall", "-Wextra"]


class BuildProgram(build_ext):
    """Links each extension as a program, statically where the C library can be: that starts in half the time."""

    def get_ext_filename(self, fullname: str) -> str:
        """Return a program's file: no suffix of Python's."""
        return str(Path(*fullname.split(".")))

    def build_extension(self, ext: Extension) -> None:
        """Compile and link one program."""
        objects = self.compiler.compile(
            ext.sources, output_dir=self.build_temp, extra_postargs=FLAGS, depends=ext.depends
        )
        path = Path(self.get_ext_fullpath(ext.name))
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.compiler.link_executable(
                objects, path.name, output_dir=str(path.parent), extra_postargs=["-static", "-s"]
            )
        except (CCompilerError, ExecError, LinkError, PlatformError):
            self.compiler.link_executable(objects, path.name, output_dir=str(path.parent), extra_postargs=["-s"])


FOLDER = Path("omn_agent", "hook")

setup(
    cmdclass={"build_ext": BuildProgram},
    ext_modules=[
        Extension(
            "omn_agent.hook.omn-agent-hook",
            [str(FOLDER / name) for name in SOURCES],
            depends=[str(FOLDER / name) for name in ("filter.h", "json_scan.h")],
            optional=True,
        )
    ],
)

"""How Sphinx builds the manual: `tox -e docs`."""

from omn_core import __version__

project = "omn"
author = "the omn maintainers"
project_copyright = "2026, the omn maintainers"
release = version = __version__
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_heading_anchors = 3
html_theme = "alabaster"
html_static_path: list[str] = []

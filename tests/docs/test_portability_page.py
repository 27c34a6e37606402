"""The page on kernels says what guests are held to."""

from __future__ import annotations

import importlib.util

from manual import DOCS


def test_the_page_is_the_one_that_the_table_makes() -> None:
    """Whoever writes the table anew writes the page anew."""
    spec = importlib.util.spec_from_file_location("generate_portability", DOCS / "generate_portability.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = module.render_page(module.read_table(module.EXPECTED, module.SERIES, module.TESTS))
    assert (DOCS / "portability.md").read_text() == made, "it is stale: run `python docs/generate_portability.py`"

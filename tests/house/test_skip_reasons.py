"""Every skip that a test can make is expected, and every expected one is of tests that there are."""

from __future__ import annotations

import ast
import fnmatch
from collections.abc import Iterator
from pathlib import Path

import pytest
from skips import read_expected

ROOT = Path(__file__).parents[2]
TESTS = sorted(
    str(path.relative_to(ROOT))
    for folder in ("tests", "plugins", "examples")
    for path in (ROOT / folder).rglob("*.py")
    if "tests" in path.relative_to(ROOT).parts and "build" not in path.relative_to(ROOT).parts
)


def iter_reasons(source: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line and the fixed parts of the reason of each skip that has words of its own."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or getattr(node.func, "attr", "") not in ("skip", "skipif"):
            continue
        given = [keyword.value for keyword in node.keywords if keyword.arg == "reason"]
        texts = [
            part.value for one in given or node.args[:1] for part in ast.walk(one) if isinstance(part, ast.Constant)
        ]
        words = [text.strip() for text in texts if isinstance(text, str) and len(text.strip()) > 3]
        if words:
            yield node.lineno, words


@pytest.mark.parametrize("path", [path for path in TESTS if Path(path).name.startswith("test_")])
def test_every_skip_of_a_test_is_expected(path: str) -> None:
    """A skip that the list does not name fails the run on the machine that makes it, and on no other."""
    of_path = [part for pattern, part in read_expected() if fnmatch.fnmatch(path, pattern.partition("::")[0])]
    for line, words in iter_reasons((ROOT / path).read_text()):
        assert any(part in word or word in part for part in of_path for word in words), f"{path}:{line}: {words}"


@pytest.mark.parametrize("pattern", sorted({pattern for pattern, _ in read_expected()}))
def test_every_expected_skip_is_of_tests_that_there_are(pattern: str) -> None:
    """A pattern that outlives its tests would let another skip pass."""
    assert fnmatch.filter(TESTS, pattern.partition("::")[0])

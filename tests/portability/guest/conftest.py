"""What the tests of a guest share: the published fixtures, and the driver of any source through any mechanism.

They run as root inside each kernel, on two cpus that take turns, four to ten times slower than outside: nothing here is
about how long something takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from omn_core.api import BoundTarget
from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry
from omn_core.testing.harness import Driver, resolve_onto

pytest_plugins = ["omn_core.testing.fixtures"]

Drive: TypeAlias = Callable[..., Driver]


def pytest_configure(config: pytest.Config) -> None:
    """Know the marks that tests carry."""
    config.addinivalue_line("markers", "spec(*ids): the requirements of the specification that this test proves")


@pytest.fixture
def drive(registry: Registry, catalog: Catalog) -> Drive:
    """Make the driver of a source through one of its mechanisms."""

    def make(source: str, backend: str, target: BoundTarget, *keys: str, mode: str = "poll") -> Driver:
        resolved = resolve_onto(catalog.entries[source], backend, target.target, mode=mode, keys=keys)
        return Driver(registry.load(registry.collectors[source, backend].factory)(), resolved, target)

    return make

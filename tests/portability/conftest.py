"""The boots that the tests of this folder look at: each kernel once, with every cell that a chosen test needs."""

from __future__ import annotations

import concurrent.futures
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from vms.boot import NODES, Boot, boot
from vms.image import build_image
from vms.kernels import SERIES, Kernel, Unreachable, find_cache, get_kernels
from vms.table import WHOLE, Rows, Table, read_table, write_table

EXPECTED = Path(__file__).parent / "expected"
TESTS = "guest"
"""The cell that is filled by the tests in `guest`."""

_AT_ONCE = 2
_LIMIT_S = 1500


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer to write the table anew."""
    parser.addoption(
        "--rewrite-table", action="store_true", help="Write what is found into tests/portability/expected."
    )


class Boots:
    """The cells that tests of this session look at, filled kernel by kernel, two kernels at once."""

    def __init__(self, wanted: dict[str, list[str]], folder: Path) -> None:
        kernels = get_kernels(wanted, find_cache())
        self._image = folder / "image.cpio"
        build_image(self._image)
        self._pool = concurrent.futures.ThreadPoolExecutor(min(_AT_ONCE, os.cpu_count() or 1))

        def start(kernel: Kernel, cells: list[str], name: str) -> Boot:
            return boot(kernel, self._image, cells, folder / name, _LIMIT_S)

        self._boots: dict[tuple[str, str], concurrent.futures.Future[Boot]] = {}
        for series, kernel in kernels.items():
            usual = [cell for cell in wanted[series] if cell != NODES]
            if usual:
                self._boots |= dict.fromkeys(
                    [(series, cell) for cell in usual], self._pool.submit(start, kernel, usual, series)
                )
            if NODES in wanted[series]:
                self._boots[series, NODES] = self._pool.submit(start, kernel, [NODES], f"{series}-{NODES}")
        self.found: Table = {}

    def get(self, series: str, cell: str) -> Boot:
        """Wait for the boot that a cell is of, and return what came of it."""
        return self._boots[series, cell].result()

    def close(self) -> None:
        """Wait for the boots that run, and start no more."""
        self._pool.shutdown(cancel_futures=True)
        self._image.unlink()


@pytest.fixture(scope="session")
def boots(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Boots]:
    """Boot what the chosen tests look at. Skips them all where no kernel can be had or booted here."""
    wanted: dict[str, list[str]] = {}
    for item in request.session.items:
        cell = getattr(item, "callspec", None)
        if cell is not None and "series" in cell.params:
            wanted.setdefault(cell.params["series"], []).append(cell.params.get("configuration", TESTS))
    try:
        made = Boots(wanted, tmp_path_factory.mktemp("boots"))
    except Unreachable as error:
        pytest.skip(f"no kernel can be booted here: {error}")
    yield made
    made.close()
    if request.config.getoption("--rewrite-table"):
        write_table(EXPECTED, {**_leave_out_alike(read_expected()), **made.found}, SERIES, TESTS)


def _leave_out_alike(table: Table) -> Table:
    """Leave out cells that say what root's says: a configuration of some kernels alone stays so of the others."""
    return {
        (configuration, series): rows
        for (configuration, series), rows in table.items()
        if configuration == WHOLE or rows != table[WHOLE, series]
    }


def read_expected() -> Table:
    """Read the table, a cell that no file holds yet as an empty one."""
    return read_table(EXPECTED, SERIES, TESTS)


@pytest.fixture
def check(request: pytest.FixtureRequest, boots: Boots) -> Callable[[str, str, Rows], list[str]]:
    """The function that holds a cell's rows to the table, or notes them where it is to be written anew."""

    def compare(configuration: str, series: str, found: Rows) -> list[str]:
        from vms.table import compare_rows

        if request.config.getoption("--rewrite-table"):
            boots.found[configuration, series] = found
            return []
        return compare_rows(read_expected().get((configuration, series), {}), found)

    return compare

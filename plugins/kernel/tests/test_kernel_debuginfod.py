"""Names from debuginfod: only when asked, only of the build that was asked for, and bounded whatever a server does."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from closed_events import hold_served
from compiled import compile_c, run_tool
from debug_server import DebugServer, serving
from omn_kernel.elf.image import read_image
from omn_kernel.elf.notes import find_build_id
from omn_kernel.elf.source import File
from omn_kernel.symbols.choice import choose_sources
from omn_kernel.symbols.debuginfod import Debuginfod, Limits
from omn_kernel.symbols.objects import read_object

from omn_core.api import MachineRefused
from omn_core.testing.fixtures import Command

SOURCE = """
#include <stdint.h>
volatile uint64_t sink;
static __attribute__((noinline)) void hidden(int n) { for (int i = 0; i < n; i++) sink += i; }
int main(void) { for (int i = 0; i < 300; i++) hidden(1000000); return LABEL; }
"""
QUICK = Limits(most_bytes=1 << 20, file_seconds=1.0, run_seconds=5.0, stall_seconds=0.5)


@attrs.frozen
class Stripped:
    """A program without symbols, its build id, and its debug file."""

    path: Path
    build_id: str
    debug: bytes


def strip(folder: Path, label: int) -> Stripped:
    """Build a program whose symbols are in a debug file alone."""
    path = compile_c(folder, f"program{label}", SOURCE, "-O1", "-g", f"-DLABEL={label}", "-Wl,--build-id=sha1")
    debug = folder / f"{label}.debug"
    run_tool("objcopy", "--only-keep-debug", str(path), str(debug))
    run_tool("strip", str(path))
    with File(str(path)) as file:
        build_id = find_build_id(read_image(file))
    assert build_id is not None
    return Stripped(path, build_id, debug.read_bytes())


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Stripped, Stripped]:
    """Two programs that differ."""
    folder = tmp_path_factory.mktemp("programs")
    return strip(folder, 0), strip(folder, 1)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("OMN_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def server(programs: tuple[Stripped, Stripped]) -> Iterator[DebugServer]:
    """A server that has the debug files of both programs."""
    with serving() as one:
        one.files |= {program.build_id: program.debug for program in programs}
        yield one


@pytest.mark.spec("STK-8", "CST-5")
def test_a_stripped_program_is_named_by_what_a_server_gives(
    omn: Command, server: DebugServer, programs: tuple[Stripped, Stripped]
) -> None:
    """Its function, by the build id, after the window; the second time from the cache, the server not asked."""
    program = programs[0]
    words = ("cpu.profile", "--symbols", "debuginfod", "--format", "json", "--", str(program.path))
    ran = omn(*words, DEBUGINFOD_URLS=server.get_url())
    hold_served(ran.code, ran.stderr)
    assert f"/good/buildid/{program.build_id}/debuginfo" in server.asked
    rows = ran.result["series"][0]["emits"]["stack"]["rows"]
    named = {(row["frames"][0], row["named_by"][0], row["objects"][0]) for row in rows if row["frames"]}
    assert ("hidden", "debuginfod", str(program.path)) in named
    assert ran.result["fields"]["debug_files_fetched"] == 1
    assert ran.result["fields"]["debug_bytes_fetched"] == len(program.debug)
    tool = ran.document["cost"]["tool"]
    assert tool["one_time_cpu_ns"] > 0
    assert tool["after_ns"] > 0
    server.asked.clear()
    server.files.clear()
    again = omn(*words, DEBUGINFOD_URLS=server.get_url())
    assert f"/good/buildid/{program.build_id}/debuginfo" not in server.asked
    assert (again.result["fields"]["debug_files_fetched"], again.result["fields"]["debug_files_cached"]) == (0, 1)


@pytest.mark.spec("STK-8")
def test_nothing_is_asked_that_was_not_to_be(
    omn: Command, server: DebugServer, programs: tuple[Stripped, Stripped]
) -> None:
    """Servers are configured and no word says to ask them: no connection; `none` names nothing, and keeps addresses."""
    for words in ((), ("--symbols", "local"), ("--symbols", "none")):
        ran = omn(
            *("cpu.profile", *words, "--format", "json", "--", str(programs[0].path)), DEBUGINFOD_URLS=server.get_url()
        )
        hold_served(ran.code, ran.stderr)
        answer = ran.result["series"][0]["emits"]["stack"]
        leaves = {row["frames"][0] for row in answer["rows"] if row["objects"][:1] == [str(programs[0].path)]}
        assert leaves
        assert all(leaf.startswith("program0+0x") for leaf in leaves)
        assert answer["builds"][str(programs[0].path)] == [programs[0].build_id]
        if words[1:] == ("none",):
            assert {name for row in answer["rows"] for name in row["named_by"]} <= {None}
    assert server.asked == []


@pytest.mark.spec("STK-8")
def test_servers_that_nobody_configured_refuse_the_run_before_it_begins(omn: Command, tmp_path: Path) -> None:
    """Exit 1 with what to set, and the program did not run; a collector that would not ask is the build's gap."""
    told = tmp_path / "told"
    for urls in ("", "ftp://127.0.0.1/"):
        ran = omn("cpu.profile", "--symbols", "debuginfod", "--", "touch", str(told), DEBUGINFOD_URLS=urls)
        assert ran.code == 1
        assert ran.stderr.startswith(
            "omn: debuginfod was asked for, and no server of it is configured: DEBUGINFOD_URLS"
        )
        assert not told.exists()
    with pytest.raises(MachineRefused):
        choose_sources("debuginfod")
    url = "http://127.0.0.1:9"
    nothing = omn("cpu.profile", "-e", "count", "--symbols", "debuginfod", "--", "true", DEBUGINFOD_URLS=url)
    assert nothing.code == 3
    assert "debuginfod would not be asked" in nothing.stderr
    count = ("mem.faults", "-m", "count", "-e", "count", "--symbols", "debuginfod", "--", "true")
    assert omn(*count, DEBUGINFOD_URLS=url).code == 3


def ask(server: DebugServer, build_id: str, *ways: str, limits: Limits = QUICK) -> tuple[Debuginfod, File | None]:
    """Ask servers that behave in some ways for a debug file."""
    asked = Debuginfod(tuple(server.get_url(way) for way in ways), limits)
    return asked, asked.find(build_id)


@pytest.mark.spec("STK-8")
@pytest.mark.parametrize(
    ("way", "fault"),
    [
        ("lying", "is not of that build"),
        ("broken", "it answers 500 out of order"),
        ("short", "it sent 4 of 100000 bytes"),
        ("huge", "what it has is larger than 1 MiB"),
        ("endless", "what it has is larger than 1 MiB"),
        ("silent", "it does not answer; it is not asked again"),
        ("slow", "it took longer than 1 s; it is not asked again"),
        ("looping", "it answers 302"),
        ("local", "it answers 302"),
        ("babbling", "it is not asked again"),
    ],
)
def test_whatever_a_server_does_the_next_one_is_asked(
    server: DebugServer, programs: tuple[Stripped, Stripped], cache: Path, way: str, fault: str
) -> None:
    """It costs no more than its bounds, leaves nothing in the cache, and is named with what it did."""
    server.own_file = str(programs[1].path)
    wanted = programs[1]
    began = time.monotonic()
    asked, found = ask(server, wanted.build_id, way)
    assert found is None
    assert time.monotonic() - began < 30  # where nothing bounded it, it would not end
    (said,) = asked.faults
    assert said.startswith(f"{server.get_url(way)}: ")
    assert fault in said
    assert list(cache.glob("*")) == []
    asked, found = ask(server, wanted.build_id, way, "good")
    assert found is not None
    with found:
        assert find_build_id(read_image(found)) == wanted.build_id
    assert [path.name for path in cache.glob("*")] == [f"debugfile-{wanted.build_id}"]


@pytest.mark.spec("STK-8")
def test_a_server_that_is_gone_or_slow_is_asked_once(server: DebugServer, programs: tuple[Stripped, Stripped]) -> None:
    """Fifty files cost one wait, and not fifty; one that has not a file is asked for the next."""
    asked, _ = ask(server, programs[0].build_id, "silent")
    for number in range(50):
        assert asked.find(f"{number:040x}") is None
    assert len(server.asked) == 1
    lacking, _ = ask(server, "00" * 20, "good")
    found = lacking.find(programs[0].build_id)
    assert found is not None
    found.close()
    assert (lacking.lacking, lacking.files, lacking.faults) == (1, 1, {})


def test_a_run_asks_no_longer_than_its_time(server: DebugServer, programs: tuple[Stripped, Stripped]) -> None:
    """What is left of a run's time bounds each file, and when it is over nobody is asked."""
    limits = attrs.evolve(QUICK, run_seconds=0.2, file_seconds=60.0, stall_seconds=60.0)
    asked, _ = ask(server, programs[0].build_id, "slow", "good", limits=limits)
    assert asked.find(programs[1].build_id) is None
    assert "fetching took 0.2 s, and nothing more is asked for" in asked.faults
    assert len(server.asked) == 1


@pytest.mark.spec("STK-8")
def test_what_was_kept_is_held_to_its_build_when_it_is_read(
    server: DebugServer, programs: tuple[Stripped, Stripped], cache: Path
) -> None:
    """A kept file that is cut short or another's is fetched anew."""
    asked, found = ask(server, programs[0].build_id, "good")
    assert found is not None
    found.close()
    kept = cache / f"debugfile-{programs[0].build_id}"
    assert kept.read_bytes() == programs[0].debug
    for content in (programs[1].debug, programs[0].debug[:100], b""):
        kept.write_bytes(content)
        asked, found = ask(server, programs[0].build_id, "good")
        assert found is not None
        found.close()
        assert (asked.kept, asked.files, kept.read_bytes()) == (0, 1, programs[0].debug)


def test_a_redirection_is_followed_and_a_cache_that_is_closed_is_done_without(
    server: DebugServer, programs: tuple[Stripped, Stripped], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file serves the run, and nothing is kept."""
    monkeypatch.setenv("OMN_CACHE_DIR", "/proc/nothing")
    asked, found = ask(server, programs[0].build_id, "moved")
    assert found is not None
    with found:
        assert found.read(0, found.size) == programs[0].debug
    assert asked.faults == {}


def test_a_file_with_its_own_symbols_asks_nobody(server: DebugServer, tmp_path: Path) -> None:
    """A whole table is never fetched for; a build id that no server could have is not spelt into an address."""
    whole = compile_c(tmp_path, "whole", SOURCE, "-DLABEL=2", "-Wl,--build-id=sha1")
    sources = attrs.evolve(choose_sources(None), servers=Debuginfod((server.get_url(),), QUICK))
    with File(str(whole)) as file:
        assert len(read_object(read_image(file), sources=sources).index)
    assert sources.servers is not None
    assert sources.servers.find("../../etc") is None
    assert server.asked == []


def test_no_thread_and_no_descriptor_outlives_the_asking(
    server: DebugServer, programs: tuple[Stripped, Stripped]
) -> None:
    """Each download has a clock that ends with it."""
    before = threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))
    for way in ("good", "broken", "short", "lying"):
        _, found = ask(server, programs[0].build_id, way)
        if found is not None:
            found.close()
    deadline = time.monotonic() + 10
    while (
        threading.active_count(),
        len(list(Path("/proc/self/fd").iterdir())),
    ) > before and time.monotonic() < deadline:
        threading.Event().wait(0.01)  # the server's own threads end when they have seen the connection close
    assert (threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))) <= before

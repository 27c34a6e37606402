"""The three sources against a real server and a counted number of commands."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from omn_redis.commands import Commands
from omn_redis.info import get_number, parse_commands, parse_info
from omn_redis.lookups import Lookups
from omn_redis.memory import Memory
from redis_server import Server, find_free_port, server_argv, wait_until_listening

from omn_core.api import MachineRefused, Target
from omn_core.model.catalog import Catalog
from omn_core.testing.harness import Driver, bind_processes, resolve_onto


def drive(collector: object, catalog: Catalog, source: str, pid: int, *, launched: bool = False) -> Driver:
    entry = catalog.entries[source]
    resolved = resolve_onto(entry, entry.chain[0].id, Target("pid", (pid,)), mode="poll")
    return Driver(collector, resolved, bind_processes(pid, launched=launched))


@pytest.mark.spec("PLG-5")
def test_commands_counts_exactly_what_a_client_sent(server: Server, catalog: Catalog) -> None:
    """The rows of a window add up to the commands sent in it, command by command, and hold none of omn's own."""
    server.repeat(7, "SET", "before", "x")
    with drive(Commands(), catalog, "redis.commands", server.process.pid) as driver:
        server.repeat(100, "SET", "key", "value")
        server.repeat(40, "GET", "key")
        driver.sample()
        server.repeat(11, "GET", "key")
        driver.sample()
        driver.sample()
    calls: dict[str, int] = {}
    for row in driver.rows:
        calls[row["redis.command"]] = calls.get(row["redis.command"], 0) + row["calls"]
    assert calls == {"set": 100, "get": 51}
    stated = parse_commands(parse_info(server.call("INFO", "commandstats")))
    assert stated["set"].calls == 107
    assert sum(row["exec_ns"] for row in driver.rows if row["redis.command"] == "get") == stated["get"].exec_ns


def test_commands_counts_the_info_of_others(server: Server, catalog: Catalog) -> None:
    """An INFO that somebody else sends is a command like any other."""
    with drive(Commands(), catalog, "redis.commands", server.process.pid) as driver:
        server.repeat(3, "INFO", "memory")
        assert [(row["command"], row["calls"]) for row in driver.sample()] == [("info", 3)]


def test_commands_counts_those_that_fail(server: Server, catalog: Catalog) -> None:
    """A command that runs into an error is counted as failed, and as a call."""
    server.call("SET", "text", "x")
    with drive(Commands(), catalog, "redis.commands", server.process.pid) as driver:
        for _ in range(3):
            with pytest.raises(Exception, match="not an integer"):
                server.call("INCR", "text")
        (row,) = driver.sample()
    assert (row["command"], row["calls"], row["failed"]) == ("incr", 3, 3)


@pytest.mark.spec("RUN-6")
def test_commands_of_a_reset_server_is_a_counted_loss(server: Server, catalog: Catalog) -> None:
    """CONFIG RESETSTAT takes an interval away: no negative count is made of it, and the loss says why."""
    server.repeat(50, "SET", "key", "value")
    collector = Commands()
    with drive(collector, catalog, "redis.commands", server.process.pid) as driver:
        server.repeat(20, "SET", "key", "value")
        server.call("CONFIG", "RESETSTAT")
        assert driver.sample() == []
        server.repeat(4, "GET", "key")
        assert [(row["command"], row["calls"]) for row in driver.sample()] == [("get", 4)]
        assert collector.losses().failed_reads == 1
        assert "RESETSTAT" in collector.losses().reasons[0]


def test_lookups_counts_hits_and_misses(server: Server, catalog: Catalog) -> None:
    """Reads that found their key and reads that did not are told apart; an idle reading is a zero."""
    server.call("SET", "key", "value")
    with drive(Lookups(), catalog, "redis.lookups", server.process.pid) as driver:
        server.repeat(30, "GET", "key")
        server.repeat(10, "EXISTS", "nothing")
        (row,) = driver.sample()
        (idle,) = driver.sample()
    assert (row["lookups"], row["hits"], row["misses"]) == (40, 30, 10)
    assert (idle["lookups"], idle["hits"], idle["misses"]) == (0, 0, 0)


def test_memory_grows_by_what_is_stored(server: Server, catalog: Catalog) -> None:
    """A megabyte stored is a megabyte more, to a few percent, and is what the server itself states."""
    with drive(Memory(), catalog, "redis.memory", server.process.pid) as driver:
        (before,) = driver.sample()
        server.call("SET", "large", "x" * (1 << 20))
        (after,) = driver.sample()
    assert after["used_bytes"] - before["used_bytes"] == pytest.approx(1 << 20, rel=0.3)
    stated = get_number(parse_info(server.call("INFO", "memory")), "used_memory")
    assert after["used_bytes"] == pytest.approx(stated, abs=1 << 18)


def test_a_launched_server_is_counted_from_its_start(tmp_path: Path, catalog: Catalog) -> None:
    """A server that was not there at the attach is found when it listens, and all it ever did is in the rows."""
    port = find_free_port()
    gate, open_gate = os.pipe()
    argv = ["sh", "-c", 'read line; exec "$@"', "sh", *server_argv(port, tmp_path)]
    process = subprocess.Popen(argv, stdin=gate, stdout=subprocess.DEVNULL)
    collector = Commands()
    try:
        with drive(collector, catalog, "redis.commands", process.pid, launched=True) as driver:
            assert driver.sample() == []
            assert collector.losses().failed_reads == 1
            os.write(open_gate, b"\n")
            wait_until_listening(port, process)
            Server(process, port).repeat(25, "PING")
            assert [(row["command"], row["calls"]) for row in driver.sample()] == [("ping", 25)]
            assert collector.losses().is_empty
    finally:
        os.close(gate)
        os.close(open_gate)
        process.kill()
        process.wait()


def test_a_launched_program_that_is_no_server_is_a_loss_with_its_reason(tmp_path: Path, catalog: Catalog) -> None:
    """A program that never listens gives no number, and each reading that found nothing is counted."""
    process = subprocess.Popen(["sleep", "60"])
    collector = Memory()
    try:
        with drive(collector, catalog, "redis.memory", process.pid, launched=True) as driver:
            assert driver.sample() == []
            assert driver.sample() == []
            assert collector.losses().failed_reads == 2
            (reason,) = collector.losses().reasons
            assert reason.startswith(f"process {process.pid} listens on no TCP port")
    finally:
        process.kill()
        process.wait()


def test_another_process_is_refused_by_what_answers_there(server: Server, catalog: Catalog) -> None:
    """A process that holds the server's listening socket and is not the server is not taken for it."""
    held = subprocess.Popen(["sh", "-c", "sleep 60"], stdin=subprocess.DEVNULL)
    try:
        with pytest.raises(MachineRefused, match="listens on no TCP port"):
            drive(Commands(), catalog, "redis.commands", held.pid).__enter__()
    finally:
        held.kill()
        held.wait()


def test_a_server_with_a_password_is_refused_in_its_own_words(tmp_path: Path, catalog: Catalog) -> None:
    """What stands between is the server's answer, quoted."""
    port = find_free_port()
    process = subprocess.Popen(server_argv(port, tmp_path, "--requirepass", "secret"), stdout=subprocess.DEVNULL)
    try:
        wait_until_listening(port, process)
        with pytest.raises(MachineRefused, match="NOAUTH"):
            drive(Commands(), catalog, "redis.commands", process.pid).__enter__()
    finally:
        process.kill()
        process.wait()


def test_a_server_that_ends_is_the_end_and_its_last_interval_a_loss(server: Server, catalog: Catalog) -> None:
    """What it did since the last reading is gone with it: counted, and never made up."""
    from omn_core.api import TargetGone

    collector = Commands()
    with drive(collector, catalog, "redis.commands", server.process.pid) as driver:
        server.repeat(5, "PING")
        server.process.kill()
        server.process.wait()
        with pytest.raises(TargetGone):
            driver.sample()
        assert collector.losses().failed_reads == 1

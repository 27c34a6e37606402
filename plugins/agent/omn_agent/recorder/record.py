"""A harness launched, recorded and published: what `omn agent record` and `omn agent recover` do."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from omn_agent.content import is_content_kept
from omn_agent.encoding.write import write_recording
from omn_agent.files import refuse_existing, write_new
from omn_agent.harness import Harness
from omn_agent.recorder.clock import find_boot, read_clocks, read_file_clock
from omn_agent.recorder.compose import Composed, compose
from omn_agent.recorder.event import EventSource, Launch
from omn_agent.recorder.folder import drop_folder, get_journal_folder, list_orphans, make_folder
from omn_agent.recorder.follow import Follower
from omn_agent.recorder.hook_source import count_drops, parse_message, read_spool
from omn_agent.recorder.journal import Journal, create_journal
from omn_agent.recorder.journal_content import JournalContent, read_journal
from omn_agent.recorder.launch import hold
from omn_agent.recorder.loop import STOPPED, Recorder
from omn_agent.recorder.places import Places
from omn_agent.recorder.signals import Wakeup
from omn_agent.recorder.sources import make_sources
from omn_core.api import Launched, OmnError, RequestError, RunFailed, make_program_environment

if TYPE_CHECKING:
    from omn_core.api import Alongside  # which brings numpy

VERSION = 1


@attrs.frozen(kw_only=True)
class Wish:
    """What is to be recorded: a harness's command line, and how the recording is called. `say` tells a person.

    `start_beside` starts what omn's sources see of the harness, which is told its number while it is held.
    `has_telemetry` asks for what the harness tells of itself over the network.
    """

    harness: Harness
    argv: tuple[str, ...]
    label: str | None
    output: Path | None
    say: Callable[[str], None]
    start_beside: Callable[[int], Alongside] | None = None
    has_telemetry: bool = False


@attrs.frozen
class Published:
    """A recording that was written."""

    path: Path
    composed: Composed


def record(wish: Wish) -> Published:
    """Launch a harness, record it until it ends or the recording is stopped, and publish.

    The journal goes when the recording is published, and stays where that fails. Raises what refuses the launch, and
    RunFailed where nothing can be written.
    """
    name = f"{wish.harness.value}-{secrets.token_hex(4)}"
    path = wish.output or Path(f"{name}.pftrace")
    refuse_existing(path)
    environment = {os.fsdecode(name): os.fsdecode(value) for name, value in make_program_environment().items()}
    for orphan in list_orphans():
        wish.say(
            f"{str(orphan)!r} holds what a recorder left when it died: `omn agent recover` makes a recording of it"
        )
    sources = make_sources(wish.harness, wish.has_telemetry)
    journal = create_journal(get_journal_folder() / f"{name}.journal")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(make_folder(environment))
        for source in sources:
            stack.callback(source.close)
        wakeup = stack.enter_context(Wakeup())
        _begin(journal, wish, name, folder, path)
        try:
            recorder = _launch(wish, journal, folder, environment, sources, wakeup, stack)
        except OmnError:
            journal.close()
            journal.path.unlink()
            raise
        if recorder.run() == STOPPED:
            wish.say(f"{wish.argv[0]!r}, process {recorder.launched.pid}, goes on and is recorded no more")
        return publish(journal.path, path, wish.say, bytes(journal.pending))


def publish(journal: Path, path: Path, say: Callable[[str], None], pending: bytes = b"") -> Published:
    """Put a journal together, write it as a recording, and take the journal away.

    Raises RunFailed where it holds no session: there is nothing to keep then. Where the recording cannot be written it
    says where the journal is, and raises why.
    """
    composed = compose(_read(journal, pending))
    if not composed.recording.captures:
        journal.unlink()
        raise RunFailed("no session of the harness was seen: neither did a hook tell of one nor did a file grow")
    try:
        write_new(path, lambda stream: write_recording(stream, composed.recording))
    except OmnError:
        say(f"what was recorded is in {str(journal)!r}: `omn agent recover` makes a recording of it")
        raise
    journal.unlink()
    return Published(path, composed)


def recover(journal: Path, output: Path | None, say: Callable[[str], None]) -> Published:
    """Publish the journal of a recorder that died, as the file that it was to be unless another is named.

    Raises RequestError where its recorder is still at work.
    """
    begin = read_journal(journal).begin
    with journal.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RequestError(f"the recorder of {str(journal)!r} is at work", "end it, or its harness") from error
        published = publish(journal, output or Path(str(begin.get("output"))), say)
    drop_folder(Path(str(begin.get("folder"))))
    return published


def _read(journal: Path, pending: bytes) -> JournalContent:
    """Read a journal, and what hooks left for a recorder that was gone."""
    content = read_journal(journal, pending)
    folder = Path(str(content.begin.get("folder")))
    for message in read_spool(folder, is_taken=False):
        event = parse_message(content.harness, message)
        if event is not None:
            content.events.append(event)
            content.last_ns = max(content.last_ns, event.stamp_ns)
    drops = count_drops(folder)
    if drops:
        counts = {**(content.losses[-1][1] if content.losses else {}), "hook_drops": drops}
        content.losses.append((content.last_ns, counts))
    return content


def _begin(journal: Journal, wish: Wish, name: str, folder: Path, path: Path) -> None:
    journal.add(
        "begin",
        version=VERSION,
        id=name,
        harness=wish.harness.value,
        content=is_content_kept(wish.harness),
        label=wish.label,
        boot=find_boot(),
        working_folder=os.getcwd(),
        folder=str(folder),
        output=str(path.absolute()),
        is_accompanied=wish.start_beside is not None,
        clocks=attrs.astuple(read_clocks()),
    )
    journal.flush()


def _launch(
    wish: Wish,
    journal: Journal,
    folder: Path,
    environment: Mapping[str, str],
    sources: Sequence[EventSource],
    wakeup: Wakeup,
    stack: contextlib.ExitStack,
) -> Recorder:
    """Prepare every source, launch the harness as they ask, and return the recorder of it.

    With sources of omn's beside it, it runs once they are attached.
    """
    plan = Launch(wish.harness, wish.argv, environment, folder, is_content_kept(wish.harness))
    for source in sources:
        asked = source.prepare(plan)
        argv = (plan.argv[0], *asked.arguments, *plan.argv[1:])
        plan = attrs.evolve(plan, argv=argv, environment={**plan.environment, **asked.environment})
        for text in asked.degradations:
            journal.add("degraded", text=text)
            wish.say(text)
    launched = hold(plan.argv, plan.environment)
    stack.callback(launched.close)
    try:
        beside = _start_beside(wish, launched, stack)
        since_ns, reading = read_file_clock(), read_clocks()
        journal.add("clock", clocks=attrs.astuple(reading))
        launched.release()
    except OmnError:
        launched.abandon()
        raise
    return Recorder(
        places=Places(wish.harness, plan.environment, os.getcwd()),
        has_content=plan.has_content,
        journal=journal,
        sources=sources,
        launched=launched,
        wakeup=wakeup,
        follower=Follower(since_ns),
        readings=[reading],
        beside=beside,
    )


def _start_beside(wish: Wish, launched: Launched, stack: contextlib.ExitStack) -> Alongside | None:
    if wish.start_beside is None:
        return None
    beside = wish.start_beside(launched.pid)
    stack.callback(beside.close)
    beside.wait_attached()
    return beside

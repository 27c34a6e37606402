"""Where each harness keeps its session files, and which of them may be the launched one's."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import attrs

from omn_agent.harness import Harness

_LONGEST_FOLDER = 200


def get_codex_home(environment: Mapping[str, str]) -> Path:
    """Return Codex's folder: `CODEX_HOME`, else `~/.codex`."""
    return Path(environment.get("CODEX_HOME") or Path(environment.get("HOME") or "/") / ".codex")


def get_claude_home(environment: Mapping[str, str]) -> Path:
    """Return Claude Code's folder: `CLAUDE_CONFIG_DIR`, else `~/.claude`."""
    return Path(environment.get("CLAUDE_CONFIG_DIR") or Path(environment.get("HOME") or "/") / ".claude")


@attrs.frozen
class Places:
    """A harness's session files, as its environment and its working folder say."""

    harness: Harness
    environment: Mapping[str, str]
    working_folder: str

    def get_root(self) -> Path:
        """Return the folder below which all session files are."""
        home = Path(self.environment.get("HOME") or "/")
        if self.harness is Harness.CLAUDE:
            return get_claude_home(self.environment) / "projects"
        if self.harness is Harness.CODEX:
            return get_codex_home(self.environment) / "sessions"
        if self.harness is Harness.PI:
            return Path(self.environment.get("PI_CODING_AGENT_DIR") or home / ".pi" / "agent") / "sessions"
        return Path(self.environment.get("XDG_DATA_HOME") or home / ".local" / "share") / "muse" / "sessions"

    def iter_files(self) -> Iterator[Path]:
        """Yield the files that may be written now: of the working folder, or of yesterday and today."""
        for folder in self._iter_folders():
            yield from _glob(folder, "*.jsonl")
            if self.harness is Harness.CLAUDE:
                yield from _glob(folder, "*/subagents/**/agent-*.jsonl")
                yield from _glob(folder, "*/subagents/**/agent-*.meta.json")
            if self.harness is Harness.MUSE:
                yield from _glob(folder, "*/session.jsonl")
                yield from _glob(folder, "*/subagent/*/session.jsonl")

    def _iter_folders(self) -> Iterable[Path]:
        root = self.get_root()
        if self.harness is Harness.CLAUDE:
            name = re.sub(r"[^A-Za-z0-9]", "-", self.working_folder)
            # The name of a long path is cut, and a hash of the whole follows.
            return _glob(root, f"{name[:_LONGEST_FOLDER]}*") if len(name) > _LONGEST_FOLDER else [root / name]
        if self.harness is Harness.PI:
            own = root / f"--{re.sub(r'[/:]', '-', self.working_folder.lstrip('/'))}--"
            return [own] if own.is_dir() else _glob(root, "*")
        today = datetime.datetime.now(datetime.UTC).astimezone().date()
        days = [today + datetime.timedelta(days=step) for step in (-1, 0, 1)]
        return [root / day.strftime("%Y/%m/%d") for day in days]


def list_children(path: Path) -> list[Path]:
    """Return the files of a session's children, by where its own stands."""
    folder = path.parent if path.name == "session.jsonl" else path.with_suffix("")
    patterns = ("subagents/**/agent-*.jsonl", "subagents/**/agent-*.meta.json", "subagent/*/session.jsonl")
    return [found for pattern in patterns for found in _glob(folder, pattern)]


def find_open_files(pid: int, root: Path) -> dict[Path, int]:
    """Return the session files that a process or a descendant of it has open for writing, each with that process.

    They are its own without a doubt.
    """
    found: dict[Path, int] = {}
    for process in iter_tree(pid):
        try:
            for descriptor in Path(f"/proc/{process}/fd").iterdir():
                target = descriptor.readlink()
                if target.suffix == ".jsonl" and root in target.parents and _is_writable(process, descriptor.name):
                    found.setdefault(target, process)
        except OSError:  # it ended meanwhile
            continue
    return found


def _is_writable(pid: int, descriptor: str) -> bool:
    """Return whether a descriptor is open for writing: /proc/<pid>/fdinfo, `flags` in octal."""
    for line in Path(f"/proc/{pid}/fdinfo/{descriptor}").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "flags":
            return int(value, 8) & os.O_ACCMODE != os.O_RDONLY
    return False


def iter_tree(pid: int) -> Iterator[int]:
    """Yield a process and its descendants: /proc/<pid>/task/<tid>/children."""
    waiting = [pid]
    while waiting:
        process = waiting.pop()
        yield process
        for thread in _glob(Path(f"/proc/{process}/task"), "*"):
            try:
                waiting += map(int, (thread / "children").read_text().split())
            except OSError:  # it ended meanwhile
                continue


def _glob(folder: Path, pattern: str) -> list[Path]:
    try:
        return sorted(folder.glob(pattern))
    except OSError:  # a folder that went away, or that may not be read
        return []

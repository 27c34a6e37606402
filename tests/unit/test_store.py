"""A run's folder: written whole, private, and read back with suspicion."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shapes import make_batch, make_document, make_result

from omn_core import store, stored
from omn_core.errors import MachineRefused, RequestError, RunFailed
from omn_core.format.plain import compute_plain
from omn_core.model.result import Document

FILES = {"results.json", "cost.json", "session.yaml", "resolved.json", "view.json"}


def make_run(value: int = 1) -> Document:
    return make_document(make_result(make_batch([value]), ["summary", "raw"], mode="trace"))


def write(folder: Path, document: Document) -> None:
    store.write_run(
        folder,
        document,
        session="requests:\n  - source: mem.test\n",
        resolved={"requests": []},
        view=store.compute_view(document),
    )


@pytest.mark.spec("RUN-8", "SEC-3")
def test_a_run_is_five_private_files(tmp_path: Path) -> None:
    """Folder 0700, files 0600 whatever the umask says, and each holds its part."""
    folder, document = tmp_path / "deep" / "run", make_run()
    umask = os.umask(0)
    try:
        write(folder, document)
    finally:
        os.umask(umask)
    assert {path.name for path in folder.iterdir()} == FILES
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    plain = stored.read_run(folder)
    assert json.loads((folder / "cost.json").read_text()) == plain["cost"]
    assert (folder / "session.yaml").read_text() == "requests:\n  - source: mem.test\n"
    assert json.loads((folder / "resolved.json").read_text()) == {"requests": []}
    view = json.loads((folder / "view.json").read_text())
    assert view["capacity"] == {"cpus": 2}
    assert view["results"] == [{"source": "mem.test", "scope": "process", "unit": "bytes", "ts_err_ns": None}]


@pytest.mark.spec("RUN-8")
def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    """The folder and its results file are the same run, raw events included."""
    document = make_run(42)
    write(tmp_path, document)
    plain = stored.read_run(tmp_path)
    assert plain == stored.read_run(tmp_path / "results.json")
    assert plain["results"][0]["raw"][0]["attrs"] == {"value": 42}
    plain["results"][0]["raw"] = None
    assert plain == compute_plain(document)


@pytest.mark.spec("RUN-8")
def test_a_second_run_replaces_the_first_and_nothing_else(tmp_path: Path) -> None:
    """Files of those names are replaced, others stay, and a link is replaced rather than followed."""
    other = tmp_path / "elsewhere"
    other.write_text("kept")
    folder = tmp_path / "run"
    write(folder, make_run(1))
    (folder / "notes.txt").write_text("mine")
    (folder / "cost.json").unlink()
    (folder / "cost.json").symlink_to(other)
    write(folder, make_run(2))
    assert {path.name for path in folder.iterdir()} == FILES | {"notes.txt"}
    assert stored.read_run(folder)["results"][0]["raw"][0]["attrs"]["value"] == 2
    assert other.read_text() == "kept"
    assert not (folder / "cost.json").is_symlink()


@pytest.mark.spec("RUN-8")
def test_a_run_that_cannot_be_written_leaves_the_last_one(tmp_path: Path) -> None:
    """Out of space half-way: the old files are as they were, and nothing half-written stays beside them."""
    write(tmp_path, make_run(1))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    class FullDisk:
        def __getattr__(self, name: str) -> Any:
            raise OSError(28, "No space left on device")

    document = make_run(2)
    object.__setattr__(document.results[0].raw, "batch", FullDisk())
    with pytest.raises(RunFailed, match="No space left on device"):
        write(tmp_path, document)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_path_that_is_a_file_is_the_requests(tmp_path: Path) -> None:
    """A results folder that is something else is refused before anything runs."""
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(RequestError, match="is not a folder"):
            store.make_folder(place)


def test_a_folder_that_cannot_be_made_is_the_machines() -> None:
    """/proc holds no folder of ours, whoever asks."""
    with pytest.raises(MachineRefused, match="cannot be made"):
        store.make_folder(Path("/proc/omn-run"))


def make_text(**changes: Any) -> str:
    return json.dumps({**compute_plain(make_run()), **changes})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is not JSON"),
        ("[1, 2", "it is not JSON"),
        ("[" * 200_000, "it is not JSON"),
        ('{"omn": NaN}', "NaN is no number"),
        ("[]", "a run is an object, not list"),
        ("{}", "a run has no field 'omn'"),
        (make_text(omn={"schema": 99}), "its schema is 99, and this omn reads 1"),
        (make_text(results={}), "field 'results' of a run is dict"),
        (make_text(results=[5]), r"results\[0\] is an object, not int"),
        (make_text(results=[{"request": {}}]), r"results\[0\] has no field 'backend'"),
        (json.dumps({"omn": 1 << 20000}) if hasattr(int, "x") else '{"omn": ' + "9" * 9999 + "}", "it is not JSON"),
    ],
)
def test_a_file_that_is_no_run_is_refused_with_its_reason(tmp_path: Path, text: str, reason: str) -> None:
    """A clear error names the file and the first thing wrong with it."""
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(RequestError, match=reason) as caught:
        stored.read_run(tmp_path)
    assert str(path) in str(caught.value)


def test_a_series_without_answers_is_no_run(tmp_path: Path) -> None:
    """What a reader walks into is checked as deep as the answers."""
    plain = compute_plain(make_run())
    plain["results"][0]["series"][0].pop("emits")
    (tmp_path / "results.json").write_text(json.dumps(plain))
    with pytest.raises(RequestError, match=r"a series of results\[0\] has no field 'emits'"):
        stored.read_run(tmp_path)


def test_a_place_that_holds_no_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing there, a pipe nobody writes to, a file past the bound: an error each, at once."""
    with pytest.raises(RequestError, match="cannot be read: No such file"):
        stored.read_run(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RequestError, match="not a regular file"):
        stored.read_run(tmp_path / "pipe")
    monkeypatch.setattr(stored, "LARGEST_BYTES", 10)
    (tmp_path / "results.json").write_text(make_text())
    with pytest.raises(RequestError, match="larger than"):
        stored.read_run(tmp_path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_any_bytes_are_a_run_or_a_refusal(tmp_path: Path, content: bytes) -> None:
    """Nothing a file can hold gets past as another exception."""
    path = tmp_path / "results.json"
    path.write_bytes(content)
    with pytest.raises(RequestError):
        stored.read_run(path)

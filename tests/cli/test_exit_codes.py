"""The exit-code table, each row with its sentence: 0 served, 1 the machine or the run, 2 the request, 3 the build."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

REFUSED = "omn: this machine refused the request; nothing ran"
FAILED = "omn: the run failed before any result was written"
FAILED_AFTER = "omn: the run failed after its results were written"

pytestmark = pytest.mark.spec("REQ-9")


def last_line(stderr: str) -> str:
    return stderr.rstrip("\n").splitlines()[-1] if stderr.strip() else ""


def expect(ran: Any, code: int, said: str) -> None:
    """Hold a run to its code, to what it said, and to which last line that code ends with."""
    stderr = ran.stderr if isinstance(ran.stderr, str) else ran.stderr.decode()
    status = getattr(ran, "code", getattr(ran, "returncode", None))
    assert (status, said in stderr) == (code, True), f"code {status}, stderr: {stderr}"
    assert "Traceback" not in stderr
    fixed = last_line(stderr) in (REFUSED, FAILED, FAILED_AFTER)
    assert fixed is (code == 1), stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("mem.rs", "--pid", "1"), 2, "no source is called 'mem.rs'"),
        (("mem.rs", "--pid", "1"), 2, "did you mean 'mem.rss'?"),
        (("runtime.java", "-e", "raw", "--pid", "1", "-d", "1s"), 3, "(USDT) are not read yet"),
        (("mem.rss", "--format", "jsn", "--", "true"), 2, "no format is called 'jsn'"),
        (("latency", "--", "true"), 3, "install omn-triage to have it"),
        (("mem.rss", "-m", "trace", "--", "true"), 2, "mem.rss has no mode 'trace'"),
        (("mem.faults", "--", "true"), 2, "several modes"),
        (("mem.rss",), 2, "serves several targets and none was named"),
        ((), 0, ""),
        (("-d", "1s"), 2, "nothing was asked"),
        (("mem.rss", "--pid", "1", "--system"), 2, "are two targets"),
        (("mem.rss", "--pid", "one"), 2, "--pid takes numbers"),
        (("mem.rss", "--pid", "0"), 2, "target pid is a positive number, not 0"),
        (("mem.rss", "--"), 2, "a program is a list of strings"),
        (("mem.rss", "stray", "--", "true"), 2, "'stray' stands where no word belongs"),
        (("mem.rss", "sleep", "1 0"), 2, "a program stands after '--': omn mem.rss -- sleep '1 0'"),
        (("mem", "true"), 2, "a program stands after '--': omn mem -- true"),
        (("lst", "mem"), 2, "did you mean 'list'?"),
        (("--format", "json", "list"), 2, "'list' is a command, and stands before every option"),
        (("completion",), 2, "Choose from: bash, zsh, fish"),
        (("mem.rss", "--no-such-flag"), 2, "No such option"),
        (("mem.rss", "-d", "soon", "--", "true"), 2, "'soon' is no duration"),
        (("mem.meminfo", "--", "true"), 2, "omn mem.meminfo --system -- true"),
        (("mem.rss", "--filter", "value >", "--", "true"), 2, "filter, column 8"),
        (("mem.rss", "--keys", "gpu", "--", "true"), 2, "has no key 'gpu'"),
        (("mem.rss", "--backend", "fs:proc:statm", "--", "true"), 2, "--backend is written force:ID"),
        (("mem.rss", "--backend", "force:nothing", "--", "true"), 2, "has no backend 'nothing'"),
        (("mem.meminfo", "--system"), 2, "nothing ends this run"),
        (("mem.faults", "-m", "count", "-e", "count", "--stack", "fp", "--", "true"), 3, "carry no stacks"),
        (("mem.faults", "-m", "count", "-e", "count", "--symbols", "none", "--", "true"), 3, "carry no stacks"),
        (("mem.meminfo", "--system", "-d", "1s", "--program-stderr", "x"), 2, "no program is launched"),
        (("mem.rss", "--dump-request", "--dump-session", "--", "true"), 2, "one dump at a time"),
        (("-f", "/nowhere/session.yaml"), 2, "this session cannot be read"),
        (("mem.rss", "-f", "x.yaml"), 2, "are two questions"),
        (("mem.rss", "--catalog", "/nowhere", "--", "true"), 2, "cannot be read"),
    ],
)
def test_the_request_and_the_build(omn: Any, arguments: tuple[str, ...], code: int, said: str) -> None:
    """What is wrong on every machine ends with 2, what nothing installed serves with 3, each with its sentence."""
    expect(omn(*arguments), code, said)


@pytest.mark.spec("REQ-10")
def test_each_state_of_a_pid_has_its_own_sentence(omn: Any, dead_pid: int, zombie: int, kernel_thread: int) -> None:
    """A pid that is not there, one that has ended and one without memory are the machine's, told apart."""
    expect(omn("mem.rss", "--pid", str(dead_pid)), 1, f"no process {dead_pid}")
    expect(omn("mem.rss", "--pid", "999999999"), 1, "no process 999999999")
    expect(omn("mem.rss", "--pid", str(zombie)), 1, "zombie")
    expect(omn("mem.rss", "--pid", str(kernel_thread)), 1, "kernel thread")


@pytest.mark.spec("PRB-6", "PRB-1")
def test_another_users_process_is_refused_with_what_would_grant_it(
    without_privileges: Any, strangers_sleeper: int
) -> None:
    """Without the capability a stranger's mappings are restricted, not absent: the refusal names the capability."""
    expect(without_privileges("mem.pss", "--pid", str(strangers_sleeper), "-d", "1s"), 1, "CAP_SYS_PTRACE")


def test_a_program_that_is_not_there_is_the_machines(omn: Any, tmp_path: Path) -> None:
    """A name PATH does not hold, a file without its bit and a script without its interpreter: nothing ran."""
    expect(omn("mem.rss", "--", "no-such-program-anywhere"), 1, "no-such-program-anywhere")
    plain = tmp_path / "plain"
    plain.write_text("x")
    expect(omn("mem.rss", "--", str(plain)), 1, str(plain))
    script = tmp_path / "script"
    script.write_text("#!/nowhere/interpreter\n")
    script.chmod(0o755)
    expect(omn("mem.rss", "--", str(script)), 1, str(script))


@pytest.mark.spec("RES-3")
def test_a_pinned_backend_ends_with_its_own_gap(omn: Any) -> None:
    """One whose requirement this machine lacks is the machine's, one nobody collects alone the build's."""
    source, unwritten = next(
        (source, backend["id"])
        for source in omn("list", "--format", "json").document["sources"]
        for backend in source["backends"]
        if "launch" in source["targets"] and not backend["collected"] and backend["state"] == "available"
    )
    mode = source["modes"][0]
    asked = (source["id"], "-m", mode, "-e", source["emits"][mode][0], "--backend", f"force:{unwritten}")
    expect(omn(*asked, "--", "true"), 3, "pinned")
    absent = omn("list", "mem", "--format", "json", OMN_SYSROOT="/nowhere").document["sources"]
    gone = next(s for s in absent if s["id"] == "mem.rss")
    assert gone["usable"] is False
    expect(omn("mem.rss", "--backend", "force:fs:proc:statm", "--", "true", OMN_SYSROOT="/nowhere"), 1, "fs:proc:statm")


SESSIONS = [
    ("requests:\n- source: mem.rss\n  source: mem.pss\n", "session.yaml:3: 'source' is written twice"),
    ("requests:\n- source: mem.rss\n\tmode: poll\n", "session.yaml:3: a tab indents here"),
    ("requests:\n- source: mem.rss\n  hz: many\n", "session.yaml:3: "),
    ("requests:\n- source: mem.rss\n  targt: {pid: 1}\n", "did you mean 'target'?"),
    ("a: &a [x]\nb: [*a, *a]\n", "there is no field"),
    (
        "requests:\n- {source: mem.rss, target: {launch: [a]}}\n- {source: mem.pss, target: {launch: [b]}}\n",
        "a run launches one program",
    ),
    (
        "requests:\n- {source: mem.rss, target: {launch: [a]}}\njoins: []\n",
        "the block 'joins' is valid, and nothing installed here serves it",
    ),
]


@pytest.mark.spec("REQ-3", "REQ-5")
@pytest.mark.parametrize(("text", "said"), SESSIONS)
def test_a_session_that_is_wrong_says_where(omn: Any, tmp_path: Path, text: str, said: str) -> None:
    """Each mistake of a session file ends with its file, its line and one reason, for the run and for validate."""
    path = tmp_path / "session.yaml"
    path.write_text(text)
    code = 3 if "joins" in text else 2
    expect(omn("-f", str(path)), code, said)
    expect(omn("validate", "-f", str(path)), code, said)


def test_an_alias_bomb_is_refused(omn: Any) -> None:
    """A session that expands without bound is refused from standard input too."""
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    expect(omn("-f", "-", stdin="\n".join(levels).encode()), 2, "a file holds at most 100000 values")


@pytest.mark.spec("REQ-1")
@pytest.mark.parametrize("arguments", [("--until", "value > 1"), ("--until", "value > 1", "--retain", "5s")])
def test_what_this_build_does_not_do_yet_is_said_and_nothing_runs(omn: Any, arguments: tuple[str, ...]) -> None:
    """A valid option that nothing installed serves is the build's gap, never ignored."""
    ran = omn("mem.rss", *arguments, "--", "true")
    assert ran.code == 3
    assert "is valid, and" in ran.stderr
    assert ran.stdout == b""


def install_plugins(folder: Path) -> dict[str, str]:
    """Write three broken plugins and two that claim one source, and return the environment that finds them."""
    from omn_core.testing.distributions import write_distribution

    source = (Path(__file__).parent / "clashing.yaml").read_text()
    catalog = (
        "from omn_core.api import RequirementRow, hookimpl\nOMN_CONTRACT = '1.0'\n"
        "@hookimpl\ndef omn_catalog():\n    return {package!r}\n"
    )
    write_distribution(
        folder,
        "omn-broken",
        {"omn_broken/__init__.py": "", "omn_broken/plugin.py": "raise RuntimeError('broken on purpose')"},
        entry_points={"broken": "omn_broken.plugin"},
    )
    for name, text in (("one", source), ("two", source), ("torn", "- id: lab.torn\n  id: lab.torn\n")):
        package = f"omn_{name}"
        files = {
            f"{package}/__init__.py": "",
            f"{package}/plugin.py": catalog.format(package=package),
            f"{package}/catalog.yaml": text,
        }
        write_distribution(folder, f"lab-{name}", files, entry_points={"lab": f"{package}.plugin"})
    return find_environment(folder)


def find_environment(folder: Path) -> dict[str, str]:
    """Return the environment in which distributions of a folder are found."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))}


@pytest.mark.spec("PLG-4", "PLG-6")
def test_broken_and_clashing_plugins_are_named_and_stop_nobody(omn: Any, tmp_path: Path) -> None:
    """One that raises, one whose catalog is torn and two that claim one source: each is named, and the rest measure."""
    environment = install_plugins(tmp_path)
    plugins = omn("plugins", "--format", "json", **environment).document["plugins"]
    reasons = {plugin["distribution"]: (plugin["state"], plugin["reason"]) for plugin in plugins}
    assert reasons["omn-broken"][0] == "failed"
    assert "broken on purpose" in reasons["omn-broken"][1]
    assert reasons["lab-torn"][0] == "failed"
    assert "omn_torn/catalog.yaml:2: 'id' is written twice" in reasons["lab-torn"][1]
    for distribution in ("lab-one", "lab-two"):
        assert reasons[distribution][0] == "clash"
        assert "source lab.shared is claimed by lab (lab-one) and lab (lab-two)" in reasons[distribution][1]
    expect(omn("lab.shared", "--pid", "1", **environment), 2, "no source is called 'lab.shared'")
    served = omn("mem.rss", "-v", "--format", "json", "--", "sleep", "0.1", **environment)
    expect(served, 0, "plugin broken (omn-broken)")
    assert served.document["results"][0]["backend"] == "fs:proc:statm"


@pytest.mark.spec("FMT-1")
def test_an_emit_that_a_format_cannot_carry_is_refused_before_the_machine_is_asked(omn: Any, tmp_path: Path) -> None:
    """A format of one emit refuses the others as the request's."""
    from omn_core.testing.distributions import write_distribution

    text = (
        "from omn_core.api import FormatRow, hookimpl\nOMN_CONTRACT = '1.0'\n@hookimpl\ndef omn_formats():\n"
        "    return [FormatRow('narrow', 'omn_core.format.as_json:JSON', emits=('raw',))]\n"
    )
    write_distribution(
        tmp_path,
        "omn-narrow",
        {"omn_narrow/__init__.py": "", "omn_narrow/plugin.py": text},
        entry_points={"narrow": "omn_narrow.plugin"},
    )
    environment = find_environment(tmp_path)
    ran = omn("mem.rss", "--format", "narrow", "--", "true", OMN_SYSROOT="/nowhere", **environment)
    expect(ran, 2, "the format narrow cannot carry summary\n     it carries raw")
    assert omn("mem.rss", "--format", "narrow", "-e", "raw", "--", "sleep", "0.1", **environment).code == 0


_RAISES = """
import click

class Encoder:
    def write(self, document, stream, style):
        raise KeyError("no such part")

ENCODER, no_command = Encoder(), 5

@click.command()
def raises():
    1 / 0

@click.command()
def interrupted():
    raise KeyboardInterrupt
"""


def test_a_plugins_encoder_and_commands_that_raise_end_like_any_failure(omn: Any, tmp_path: Path) -> None:
    """Each ends with its reason and its sentence: after writing where the run's folder holds the results."""
    from omn_core.testing.distributions import write_distribution

    text = (
        "from omn_core.api import CommandRow, FormatRow, hookimpl\nOMN_CONTRACT = '1.0'\n"
        "@hookimpl\ndef omn_formats():\n    return [FormatRow('odd', 'omn_odd.code:ENCODER')]\n"
        "@hookimpl\ndef omn_commands():\n"
        "    return [CommandRow(name, f'omn_odd.code:{name}') for name in ('raises', 'interrupted', 'no_command')]\n"
    )
    files = {"omn_odd/__init__.py": "", "omn_odd/plugin.py": text, "omn_odd/code.py": _RAISES}
    write_distribution(tmp_path, "omn-odd", files, entry_points={"odd": "omn_odd.plugin"})
    environment = find_environment(tmp_path)
    measure = ("mem.rss", "--format", "odd", "--", "true")
    for arguments, last in ((measure, FAILED), (("-o", str(tmp_path / "run"), *measure), FAILED_AFTER)):
        ran = omn(*arguments, **environment)
        expect(ran, 1, "omn_odd.code:ENCODER raised KeyError: 'no such part'")
        assert last_line(ran.stderr) == last
    assert (tmp_path / "run" / "results.json").exists()
    raised = omn("raises", **environment)
    assert (raised.code, last_line(raised.stderr)) == (1, FAILED)
    assert "ZeroDivisionError: division by zero" in raised.stderr
    interrupted = omn("interrupted", **environment)
    assert (interrupted.code, interrupted.stderr) == (1, f"omn: SIGINT came and aborted the run\n{FAILED}\n")
    expect(omn("no_command", **environment), 3, "omn_odd.code:no_command is int, no click command")


def test_results_that_cannot_be_written_fail_the_run(omn: Any, tmp_path: Path) -> None:
    """A closed pipe and a full device end with the sentence of a run that failed before writing."""
    arguments = [*omn.argv, "mem.rss", "--", "true"]
    if os.path.exists("/dev/full"):
        with open("/dev/full", "wb") as full:
            ran = subprocess.run(arguments, stdout=full, stderr=subprocess.PIPE, env=omn.environment(), check=False)
        expect(ran, 1, "could not be written")
        assert last_line(ran.stderr.decode()) == FAILED
    reader, writer = os.pipe()
    os.close(reader)
    ran = subprocess.run(arguments, stdout=writer, stderr=subprocess.PIPE, env=omn.environment(), check=False)
    os.close(writer)
    assert (ran.returncode, last_line(ran.stderr.decode())) == (1, FAILED)
    taken = tmp_path / "a file"
    taken.write_text("")
    expect(omn("mem.rss", "-o", str(taken), "--", "true"), 2, str(taken))


def test_whatever_the_program_ends_with_the_request_was_served(omn: Any) -> None:
    """The program's own status is in the document, and never omn's exit code."""
    for code in (0, 1, 42, 255):
        ran = omn("mem.rss", "--format", "json", "--", "sh", "-c", f"exit {code}")
        expect(ran, 0, "")
        assert ran.document["program"]["exit"] == {"code": code}
    ran = omn("mem.rss", "--format", "json", "--", "sh", "-c", "kill -SEGV $$")
    assert ran.document["program"]["exit"] == {"signal": "SIGSEGV"}

"""Words that nobody knows, and what every command says of itself."""

from __future__ import annotations

from typing import Any

import pytest

from omn_core.plugins import Registry

pytestmark = pytest.mark.spec("REQ-13")


@pytest.mark.parametrize(
    ("arguments", "nearest"),
    [
        (("mem.rs", "--pid", "1"), "mem.rss"),
        (("lst",), "list"),
        (("list", "mm"), "mem"),
        (("help", "validat"), "validate"),
        (("mem.rss", "-m", "pol", "--", "true"), "poll"),
        (("mem.rss", "-e", "sumary", "--", "true"), "summary"),
        (("mem.rss", "-e", "summary@com", "--", "true"), "comm"),
        (("mem.rss", "--keys", "tsk", "--", "true"), "task"),
        (("mem.rss", "--value", "rss_byte", "--", "true"), "rss_bytes"),
        (("mem.rss", "--filter", "com == 'a'", "--", "true"), "comm"),
        (("mem.rss", "--backend", "force:fs:proc:stat", "--", "true"), "fs:proc:statm"),
        (("mem.rss", "--format", "jsn", "--", "true"), "json"),
        (("mem.rss", "--cost", "lo", "--", "true"), "low"),
        (("plugins", "chek"), "check"),
    ],
)
def test_the_nearest_word_is_suggested(omn: Any, arguments: tuple[str, ...], nearest: str) -> None:
    """A slip in a source, a command, a mode, an emit, a key, a field, a value, a backend, a format or a band."""
    ran = omn(*arguments)
    assert (ran.code, ran.stdout) == (2, b"")
    assert f"did you mean {nearest!r}?" in ran.stderr.lower()


@pytest.mark.parametrize("option", ["--intervl", "--durration"])
def test_the_nearest_option_is_suggested(omn: Any, option: str) -> None:
    """And a slip in an option's own name."""
    ran = omn("mem.rss", option, "1s", "--", "true")
    assert ran.code == 2
    assert {"--intervl": "--interval", "--durration": "--duration"}[option] in ran.stderr


def test_a_word_like_none_is_answered_with_what_there_is(omn: Any) -> None:
    """No suggestion is better than a wild one."""
    ran = omn("mem.rss", "-m", "xyzzy", "--", "true")
    assert "did you mean" not in ran.stderr
    assert "its modes are poll, snapshot" in ran.stderr


def test_every_commands_help_has_examples(omn: Any, registry: Registry) -> None:
    """`--help` on each command and subcommand shows how it is called, and `omn help COMMAND` says the same."""
    for words in (*((name,) for name in registry.commands), ("plugins", "check"), ()):
        shown = omn(*words, "--help")
        assert shown.code == 0
        text = shown.stdout.decode()
        assert "Example" in text, words
        assert f"omn {' '.join(words)}".rstrip() in text.partition("Example")[2] or words == ("trace",)
        if len(words) == 1:
            assert omn("help", *words).stdout.decode().split("\n", 1)[1] == text.split("\n", 1)[1]


@pytest.mark.spec("REQ-1")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("mem.rss", "--pid", "1", "--pid", "2"), "--pid was given twice --pid takes several, with a comma between"),
        (("mem.rss", "--keys", "task", "--keys", "comm", "--", "true"), "--keys was given twice --keys takes several"),
        (("cpu.util", "--cpu", "0", "--cpu=1", "-d", "1s"), "--cpu was given twice --cpu takes several"),
        (("mem.rss", "-d", "1s", "--duration", "2s", "--", "true"), "--duration was given twice leave one of them"),
        (("mem.rss", "--format", "json", "--format", "yaml", "--", "true"), "--format was given twice leave one"),
        (("validate", "mem.rss", "--filter", "value > 1", "--filter", "value < 2"), "--filter was given twice"),
    ],
)
def test_an_option_given_twice_is_refused(omn: Any, arguments: tuple[str, ...], sentence: str) -> None:
    """The first would go unheard, and the answer would be one to another question."""
    ran = omn(*arguments)
    assert (ran.code, ran.stdout) == (2, b"")
    assert sentence in " ".join(ran.stderr.split())


def test_what_repeats_and_what_the_program_is_given_may_stand_twice(omn: Any) -> None:
    """Emits are several by nature, and what stands after `--` is the program's own."""
    asked = ("mem.rss", "-m", "poll", "-e", "summary", "-e", "hist", "--", "true", "--pid", "1", "--pid", "2")
    assert omn("validate", *asked).code == 0

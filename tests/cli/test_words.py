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

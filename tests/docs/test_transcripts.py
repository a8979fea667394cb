"""Output is compared as a reader would: by what it says, not by what differs in every run."""

from __future__ import annotations

import pytest

from docs.transcripts import Names, commands_of, difference

SHOWN = """\
NAME       STATE      PID  ADDRESS
broker-1   running  12536  127.0.0.1:28949

id b5ba6b0c-30e7-4758-868d-7cac664fa19d at 2026-11-21T12:22:50.660Z
""".splitlines()

PRINTED = """\
NAME      STATE    PID  ADDRESS
broker-1  running  871  127.0.0.1:401
id 00000000-30e7-4758-868d-7cac664fa19d at 2026-11-22T00:00:00.001Z
""".splitlines()


def test_what_differs_in_every_run_is_compared_by_its_kind_and_remembered() -> None:
    names = Names()
    assert difference(SHOWN, PRINTED, names, [r"(?<=running )\d+"]) == ""
    assert names.replace("kill 12536; ask 127.0.0.1:28949,x") == "kill 871; ask 127.0.0.1:401,x"
    assert names.replace("112536 127.0.0.1:289490") == "112536 127.0.0.1:289490"


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        (PRINTED, "shown:   broker-1 running 12536"),  # a pid is not a kind of its own
        ([PRINTED[0]], "shown, but not printed: broker-1"),
        (["other", *PRINTED], "printed: other"),
    ],
)
def test_a_difference_is_named(printed: list[str], said: str) -> None:
    assert said in difference(SHOWN, printed, Names())


def test_more_than_is_shown_is_a_difference_unless_dots_stand_for_it() -> None:
    assert difference(["a"], ["a", "b"], Names()) == "printed, but not shown: b"
    assert difference(["a", "..."], ["a", "b"], Names()) == ""
    assert difference(["...", "b", "..."], ["a", "b", "c"], Names()) == ""
    assert "not printed: d" in difference(["...", "d"], ["a", "b", "c"], Names())


def test_dots_stand_for_as_many_lines_as_the_rest_needs() -> None:
    shown, varies = ["...", "20:01 nothing moves"], ["^20.*"]
    printed = ["20:01 one leaves", "20:02 nothing moves"]
    assert difference(shown, printed[1:], Names(), varies) == ""
    assert difference(shown, printed, Names(), varies) == ""
    assert difference(["a", *shown, "b", "..."], ["a", *printed, "b", "c"], Names(), varies) == ""
    assert difference(["...", "b", "c"], ["b", "d", "b", "c"], Names()) == ""
    names = Names()
    assert difference(["...", "at 7 b"], ["at 1 a", "at 2 b"], names, [r"(?<=at )\d+"]) == ""
    assert names.replace("7") == "2"


def test_what_dots_cannot_stand_for_is_named() -> None:
    assert difference(["...", "b"], ["a", "b", "c"], Names()) == "printed, but not shown: c"
    assert "not printed: c" in difference(["...", "b", "c"], ["b", "a", "b"], Names())
    assert "not printed: c" in difference(["...", "c", "..."], ["a", "b"], Names())
    assert "printed: x" in difference(["a", "..."], ["x", "a"], Names())


def test_any_order() -> None:
    assert difference(["a", "b"], ["b", "a"], Names())
    assert difference(["a", "b"], ["b", "a"], Names(), any_order=True) == ""
    assert difference(["a", "b"], ["b", "b"], Names(), any_order=True)


def test_commands_and_what_is_shown_below_them() -> None:
    text = "$ one \\\n  more\nout\n\n$ cat <<E\nbody\nE\n$ echo 'a\nb'\na\nb\n$ it # isn't it\nx\n"
    assert list(commands_of(text)) == [
        ("one \\\n  more", ["out"]),
        ("cat <<E\nbody\nE", []),
        ("echo 'a\nb'", ["a", "b"]),
        ("it # isn't it", ["x"]),
    ]
    with pytest.raises(ValueError, match="before the first command"):
        list(commands_of("out\n$ one\n"))

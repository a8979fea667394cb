"""Commands of a group whose name is nearly the same are answered with the line that was meant."""

from __future__ import annotations

import pytest

from support.shell import oncelog


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("broker", "drain", "3", "--wait"),
            "'drain' is a command of 'oncelog brokers': oncelog brokers drain 3 --wait",
        ),
        (("broker", "list"), "'list' is a command of 'oncelog brokers': oncelog brokers list"),
        (
            ("brokers", "health", "--url", "http://h:1/a b"),
            "'health' is a command of 'oncelog broker': "
            "oncelog broker health --url 'http://h:1/a b'",
        ),
    ],
    ids=["drain", "list", "health"],
)
async def test_the_right_line_is_told(words: tuple[str, ...], said: str) -> None:
    shown = await oncelog(*words)
    assert shown.code == 2
    assert said in shown.err


async def test_what_is_nobodys_is_refused_as_ever() -> None:
    shown = await oncelog("brokers", "fly")
    assert shown.code == 2
    assert "No such command 'fly'" in shown.err

"""Times are shown in the zone that was chosen; whatever a cookie says, there is one."""

from __future__ import annotations

import pytest

from oncelog_console.look import BROWSER, Look, iso, look_of

MOMENT_MS = 1_764_205_264_203


@pytest.mark.parametrize(
    ("cookie", "look"),
    [
        (None, Look()),
        ("dark.Europe/Berlin", Look("Europe/Berlin", "dark")),
        ("light.browser", Look(BROWSER, "light")),
        ("pink.Mars/Base", Look()),
        ("dark.../../etc/passwd", Look("UTC", "dark")),
        ("dark." + "x" * 1000, Look("UTC", "dark")),
        ("\x00", Look()),
    ],
)
def test_what_a_cookie_says_wrongly_is_as_if_it_said_nothing(cookie: str, look: Look) -> None:
    assert look_of(cookie) == look
    assert look_of(look.cookie()) == look


def test_times() -> None:
    assert iso(MOMENT_MS) == "2025-11-27T01:01:04.203Z"
    assert Look("UTC").text(MOMENT_MS) == "2025-11-27 01:01:04"
    assert Look("Asia/Tokyo").text(MOMENT_MS) == "2025-11-27 10:01:04"
    assert Look(BROWSER).text(MOMENT_MS) == "2025-11-27 01:01:04", "until the script has run"


def test_times_beyond_any_calendar_are_still_shown() -> None:
    for wall_ms in (2**63 - 1, -(2**63), 253_402_300_799_999):
        assert Look("Asia/Tokyo").text(wall_ms)
    assert iso(2**63 - 1) == ""
    assert iso(-1) == "1969-12-31T23:59:59.999Z"

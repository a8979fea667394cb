"""Whatever is shown is harmless; figures look alike, and what is not known is no nought."""

from __future__ import annotations

from oncelog_console.look import Look
from oncelog_console.rendering import (
    UNKNOWN,
    Renderer,
    command_text,
    duration_text,
    is_below,
    number_text,
    per_second_text,
    segment,
    size_text,
    static_files,
)


def test_figures() -> None:
    assert [number_text(each) for each in (0, 1234567, 1.25)] == ["0", "1,234,567", "1.2"]
    assert [size_text(each) for each in (0, 1023, 1536, 3 << 40)] == [
        "0 B", "1,023 B", "1.5 KiB", "3.0 TiB",
    ]  # fmt: skip
    assert [per_second_text(each) for each in (0, 0.25, 12, 84_000, 2.5e6)] == [
        "0/s", "0.2/s", "12/s", "84.0 K/s", "2.5 M/s",
    ]  # fmt: skip
    assert [duration_text(each) for each in (12, 61_000, 90_000_000)] == [
        "12 ms", "1 min 1 s", "1 d 1 h",
    ]  # fmt: skip
    for text in (number_text, size_text, per_second_text, duration_text):
        assert text(None) is UNKNOWN


def test_names_are_one_part_of_an_address_and_one_word_of_a_shell() -> None:
    assert segment("a/b?c#d e") == "a%2Fb%3Fc%23d%20e"
    assert command_text(("topics", "describe", "it's $HOME")) == (
        """oncelog topics describe 'it'"'"'s $HOME'"""
    )


def test_the_part_of_the_console_that_an_address_belongs_to() -> None:
    assert is_below("/topics", "/topics/orders?tab=configs")
    assert not is_below("/topics", "/topicsorders")
    assert is_below("/", "/?x=1")
    assert not is_below("/", "/topics")


def test_a_text_is_shown_and_never_run() -> None:
    from oncelog_console.page import Page
    from oncelog_console.settings import ConsoleSettings

    bad = "<script>alert(1)</script>\"'"
    page = Page(bad, "error.html", {"text": bad}, ("topics", "describe", bad))
    values = {"page": page, "view": page.view, "visit": None, "look": Look(), "address": "/"}
    renderer = Renderer(static_files())
    html = renderer.page("error.html", {**values, "settings": ConsoleSettings(label=bad)})
    assert "<script>alert" not in html
    assert html.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 3


def test_static_files_change_their_tag_with_their_content() -> None:
    found = static_files()
    assert found["console.css"].media_type == "text/css"
    assert len({file.tag for file in found.values()}) == len(found)
    assert "VENDORED.toml" not in found

"""Pictures are made of elements, so that no text becomes markup."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from markupsafe import escape

from oncelog_console.svg import (
    coordinate,
    draw_box,
    draw_line,
    draw_text,
    finished,
    hatching,
    svg_root,
    tell_axis,
    titled_group,
)


def test_a_picture_says_what_it_shows() -> None:
    root = svg_root("axis", 40, 20, "a & <b>")
    group = titled_group(root, "mark", "here")
    draw_line(group, (0, 1.25), (2, 3), "tick")
    draw_text(group, 1, 2, "<script>", "label", anchor="end")
    fill = hatching(root, "h")
    draw_box(root, (1, 2), (3, 4.04), "box").set("fill", fill)
    picture = finished(root)
    read = ET.fromstring(str(picture))
    assert (read.get("role"), read.get("aria-label"), read.findtext("title")) == (
        "img",
        "a & <b>",
        "a & <b>",
    )
    assert read.findtext("g/title") == "here"
    line = read.find("g/line")
    assert line is not None
    assert (line.get("x1"), line.get("y1")) == ("0", "1.2")
    box = read.find("rect")
    assert box is not None
    assert (box.get("fill"), box.get("height")) == ("url(#h)", "4")
    assert "<script>" not in str(picture)


def test_a_template_shows_it_as_it_is() -> None:
    picture = finished(svg_root("x", 1, 1, "t"))
    assert str(escape(picture)) == picture.svg


def test_scripts_are_told_where_a_time_lies() -> None:
    root = svg_root("chart", 100, 20, "t")
    tell_axis(root, (1_790_000_000_000, 1_790_000_060_000), (10, 90.5), (2, 18))
    told = {key: value for key, value in root.items() if key.startswith("data-")}
    assert told == {
        "data-since": "1790000000000",
        "data-until": "1790000060000",
        "data-left": "10",
        "data-right": "90.5",
        "data-top": "2",
        "data-bottom": "18",
    }


def test_coordinates_are_short() -> None:
    assert [coordinate(each) for each in (1, 1.0, 1.25, -0.5)] == ["1", "1", "1.2", "-0.5"]

"""Pictures are pieces of SVG, put together of elements, so that no text can become markup. Pure.

Rules: a picture has no style of its own, only classes, and says in a ``<title>`` what it shows.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Picture:
    """It is a piece of SVG; templates show it as it is, for no text came into it unescaped."""

    svg: str

    def __str__(self) -> str:
        return self.svg

    def __html__(self) -> str:
        """Return the SVG, for templates."""
        return self.svg


def svg_root(name: str, width: int, height: int, title: str) -> ET.Element:
    """Return an empty picture of a class and size in pixels."""
    box = f"0 0 {width} {height}"
    size = {"viewBox": box, "width": str(width), "height": str(height)}
    root = ET.Element("svg", {"class": name, **size, "role": "img", "aria-label": title})
    ET.SubElement(root, "title").text = title
    return root


def tell_axis(
    root: ET.Element,
    times_ms: tuple[int, int],
    sides: tuple[float, float],
    heights: tuple[float, float],
) -> None:
    """Say on a picture where which time lies, for scripts (``axis.js``).

    :param times_ms: the first and the last time, in ms since 1970.
    :param sides: they lie there, from the left.
    :param heights: what is shown over them lies between these, from above.
    """
    names = ("since", "until", "left", "right", "top", "bottom")
    for name, number in zip(names, (*times_ms, *sides, *heights), strict=True):
        root.set(f"data-{name}", coordinate(number))


def draw_line(
    parent: ET.Element, start: tuple[float, float], end: tuple[float, float], name: str
) -> ET.Element:
    """Draw a line of a class; return its element."""
    places = {
        "x1": coordinate(start[0]),
        "y1": coordinate(start[1]),
        "x2": coordinate(end[0]),
        "y2": coordinate(end[1]),
    }
    return ET.SubElement(parent, "line", {"class": name, **places})


def draw_box(
    parent: ET.Element, corner: tuple[float, float], size: tuple[float, float], name: str
) -> ET.Element:
    """Draw a rectangle of a class, of a width and a height; return its element."""
    places = {
        "x": coordinate(corner[0]),
        "y": coordinate(corner[1]),
        "width": coordinate(size[0]),
        "height": coordinate(size[1]),
    }
    return ET.SubElement(parent, "rect", {"class": name, **places})


def draw_text(
    parent: ET.Element, x: float, y: float, text: str, name: str, *, anchor: str = "start"
) -> ET.Element:
    """Write a text of a class at a place; return its element."""
    places = {"x": coordinate(x), "y": coordinate(y), "text-anchor": anchor}
    element = ET.SubElement(parent, "text", {"class": name, **places})
    element.text = text
    return element


def titled_group(parent: ET.Element, name: str, title: str) -> ET.Element:
    """Return a group of a class, which says what it shows to who points at it."""
    group = ET.SubElement(parent, "g", {"class": name})
    ET.SubElement(group, "title").text = title
    return group


def hatching(root: ET.Element, name: str) -> str:
    """Put a pattern of slanting lines into a picture; return what ``fill`` is set to.

    :param name: no other pattern of a page has it.
    """
    attributes = {"id": name, "width": "6", "height": "6", "patternUnits": "userSpaceOnUse"}
    pattern = ET.SubElement(ET.SubElement(root, "defs"), "pattern", attributes)
    ET.SubElement(pattern, "path", {"class": "hatch", "d": "M0 6 L6 0"})
    return f"url(#{name})"


def coordinate(number: float) -> str:
    """Return a coordinate with one digit behind the point at most."""
    return f"{number:.1f}".removesuffix(".0")


def finished(root: ET.Element) -> Picture:
    """Return the picture that was drawn."""
    return Picture(ET.tostring(root, encoding="unicode"))

"""A log is drawn here: its segments on one axis, and the batches of one segment as boxes. Pure.

Rules: everything that is drawn is also a row of a table on the page. What is aborted is hatched,
what compaction has thinned out has a dotted edge, and markers have a letter: C and A, beside T for
batches of transactions.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from oncelog_console.rendering import size_text
from oncelog_console.svg import (
    Picture,
    draw_box,
    draw_line,
    draw_text,
    finished,
    hatching,
    svg_root,
    titled_group,
)

Row = Mapping[str, Any]

WIDTH = 900
MARGIN = 8
STRIP_HEIGHT = 18
LABEL_HEIGHT = 14
LETTER_WIDTH = 62
"""A strip this wide has room for the number at its beginning."""
BOX_MIN, BOX_MORE = 14, 50
"""A batch is so wide, and wider by its share of the largest one's bytes."""
BOX_HEIGHT = 20
ROW_HEIGHT = 46
ABORTED_DRAWN_MAX = 500

MARKS = (
    ("log_start_offset", "start"),
    ("last_stable_offset", "LSO"),
    ("high_watermark", "HW"),
    ("synced_offset", "synced"),
    ("log_end_offset", "end"),
)
LETTERS = {"commit": "C", "abort": "A", "unknown": "?"}


def axis_picture(document: Row, shown_segment: int | None = None) -> Picture:
    """Return the whole log on one axis of offsets: segments, leader epochs, aborted ranges, and
    where it is stable, committed, synced and over.

    :param document: that of ``dump-log --remote``.
    :param shown_segment: the segment of which batches are shown has a thick edge.
    """
    segments = document["segments"]
    first = segments[0]["base_offset"] if segments else document["log_start_offset"]
    end = max(document["log_end_offset"], first + 1)
    marks = _marks_of(document)
    height = 3 * (STRIP_HEIGHT + 4) + LABEL_HEIGHT * len(marks) + 12
    name = f"{document['topic']}-{document['partition']} at broker {document['broker_id']}"
    root = svg_root("log-axis", WIDTH, height, f"the log of {name}, {first:,} to {end:,}")
    fill = hatching(root, "hatch-axis")
    plane = WIDTH - 2 * MARGIN

    def x(offset: int) -> float:
        share: float = (min(max(offset, first), end) - first) / (end - first)
        return MARGIN + plane * share

    for number, segment in enumerate(segments):
        is_last = number == len(segments) - 1
        kind = "active" if is_last else "even" if number % 2 == 0 else "odd"
        chosen = " chosen" if segment["base_offset"] == shown_segment else ""
        base, after = segment["base_offset"], segment["next_offset"]
        title = (
            f"segment {base:,} to {after:,}, {size_text(segment['size_bytes'])}"
            f"{', active' if is_last else ''}{', shown below' if chosen else ''}"
        )
        _strip(root, 0, x(base), x(after), f"segment {kind}{chosen}", title, f"{base:,}")
    epochs = document["epochs"]
    for number, epoch in enumerate(epochs):
        after = epochs[number + 1]["start_offset"] if number + 1 < len(epochs) else end
        begin = epoch["start_offset"]
        title = f"leader epoch {epoch['leader_epoch']} from {begin:,}"
        label = f"epoch {epoch['leader_epoch']}"
        _strip(root, 1, x(begin), x(after), f"epoch epoch-{number % 2}", title, label)
    for row in document["aborted"][-ABORTED_DRAWN_MAX:]:
        begin, after = row["first_offset"], row["marker_offset"] + 1
        title = f"aborted by producer {row['producer_id']}: {begin:,} to {after - 1:,}"
        box = _strip(root, 2, x(begin), x(after), "aborted", title, "")
        box.set("fill", fill)
    _draw_marks(root, marks, x)
    return finished(root)


def _marks_of(document: Row) -> list[tuple[int, str]]:
    """Return the offsets that are marked, each once, with all that they are."""
    at: dict[int, list[str]] = {}
    for name, label in MARKS:
        at.setdefault(document[name], []).append(label)
    return [(offset, f"{' = '.join(labels)} {offset:,}") for offset, labels in sorted(at.items())]


def _draw_marks(
    root: ET.Element, marks: Sequence[tuple[int, str]], x: Callable[[int], float]
) -> None:
    """Draw a line at each marked offset, with its words on a line of their own."""
    top = 3 * (STRIP_HEIGHT + 4)
    for number, (offset, label) in enumerate(marks):
        y = top + LABEL_HEIGHT * (number + 1)
        draw_line(root, (x(offset), 0), (x(offset), y), "mark-line")
        right = x(offset) > WIDTH / 2
        anchor = "end" if right else "start"
        draw_text(root, x(offset) + (-4 if right else 4), y, label, "label", anchor=anchor)


def _strip(
    root: ET.Element, lane: int, left: float, right: float, name: str, title: str, label: str
) -> ET.Element:
    y = lane * (STRIP_HEIGHT + 4)
    group = titled_group(root, f"strip {name.split()[0]}", title)
    width = max(right - left, 1.0)
    box = draw_box(group, (left, y), (width, STRIP_HEIGHT), name)
    if width >= max(LETTER_WIDTH, 7 * len(label)) and label:
        draw_text(group, left + 4, y + 13, label, "label")
    return box


def batches_picture(document: Row) -> Picture:
    """Return the batches of a document as boxes, in lines from left to right.

    :param document: that of ``dump-log --remote``.
    """
    batches, found = document["batches"], document["found"]
    entries = {entry["offset"] for entry in document["index"]}
    largest = max((batch["size_bytes"] for batch in batches), default=1)
    sizes = [BOX_MIN + BOX_MORE * batch["size_bytes"] / largest for batch in batches]
    lines = _lines_of(sizes)
    height = max(1, len(lines)) * ROW_HEIGHT
    root = svg_root("log-batches", WIDTH, height, _batches_title(batches))
    fill = hatching(root, "hatch-batches")
    epoch: int | None = None
    for line, numbers in enumerate(lines):
        x, y = float(MARGIN), line * ROW_HEIGHT + LABEL_HEIGHT
        for number in numbers:
            batch = batches[number]
            is_found = found is not None and found["batch_base_offset"] == batch["base_offset"]
            if is_found:
                draw_text(root, x, y - 3, f"▼ {found['offset']:,}", "label found")
            elif batch["leader_epoch"] != epoch or number == numbers[0]:
                draw_text(root, x, y - 3, f"epoch {batch['leader_epoch']}", "label")
            epoch = batch["leader_epoch"]
            place = (x, float(y), sizes[number] - 2)
            box = _box(root, place, batch, is_aborted(batch, document["aborted"]), is_found)
            if "aborted" in box.get("class", ""):
                box.set("fill", fill)
            if batch["base_offset"] in entries:
                below = y + BOX_HEIGHT
                draw_line(root, (x + 1, below + 2), (x + 1, below + 9), "index-tick")
            x += sizes[number]
    return finished(root)


def _batches_title(batches: Sequence[Row]) -> str:
    if not batches:
        return "no batches"
    return (
        f"{len(batches):,} batches from offset {batches[0]['base_offset']:,}"
        f" to {batches[-1]['last_offset']:,}"
    )


def _lines_of(sizes: Sequence[float]) -> list[list[int]]:
    """Return numbers of boxes, in lines that are no wider than the picture."""
    lines: list[list[int]] = []
    used = float(WIDTH)
    for number, size in enumerate(sizes):
        if used + size > WIDTH - 2 * MARGIN:
            lines.append([])
            used = 0.0
        lines[-1].append(number)
        used += size
    return lines


def _box(
    root: ET.Element, place: tuple[float, float, float], batch: Row, aborted: bool, found: bool
) -> ET.Element:
    x, y, width = place
    names = ["batch", f"epoch-{batch['leader_epoch'] % 2}"]
    names += ["marker"] * bool(batch["marker"]) + ["thinned"] * is_thinned(batch)
    names += ["aborted"] * aborted + ["found"] * found
    group = titled_group(root, "batch", batch_title(batch, aborted))
    box = draw_box(group, (x, y), (width, BOX_HEIGHT), " ".join(names))
    if is_thinned(batch):
        box.set("stroke-dasharray", "2 2")
    letter = letter_of(batch)
    if letter:
        draw_text(group, x + width / 2, y + 14, letter, "letter", anchor="middle")
    return box


def letter_of(batch: Row) -> str:
    """Return C or A for a marker, T for records of a transaction, else nothing."""
    if batch["marker"]:
        return LETTERS.get(batch["marker"], "?")
    return "T" if batch["transactional"] else ""


def is_thinned(batch: Row) -> bool:
    """Return whether compaction has taken records out of a batch."""
    return bool(batch["record_count"] < batch["last_offset"] - batch["base_offset"] + 1)


def is_aborted(batch: Row, aborted: Sequence[Row]) -> bool:
    """Return whether the records of a batch belong to a transaction that was aborted."""
    return bool(batch["transactional"]) and any(
        row["producer_id"] == batch["producer_id"]
        and row["first_offset"] <= batch["base_offset"] <= row["marker_offset"]
        for row in aborted
    )


def batch_title(batch: Row, aborted: bool) -> str:
    """Return in words what a box shows."""
    span = batch["last_offset"] - batch["base_offset"] + 1
    what = f"{batch['marker']} marker" if batch["marker"] else f"{batch['record_count']:,} records"
    words = [
        f"offset {batch['base_offset']:,}"
        + (f" to {batch['last_offset']:,}" if span > 1 else "")
        + f": {what}, {size_text(batch['size_bytes'])}, epoch {batch['leader_epoch']}",
    ]
    words += [batch["codec"]] if batch["codec"] != "none" else []
    words += [f"compacted: {batch['record_count']} of {span} left"] * is_thinned(batch)
    words += [f"producer {batch['producer_id']}"] if batch["producer_id"] is not None else []
    words += ["in a transaction"] * (bool(batch["transactional"]) and not batch["marker"])
    words += ["aborted"] * aborted
    return ", ".join(words)

"""The pictures of docs/console.md are those that ``make screenshots`` takes, and every page has
one."""

from __future__ import annotations

import re

from support.console_pages import EXAMPLES, pictures
from support.house import ROOT

FOLDER = ROOT / "docs/pictures"
PAGE = (ROOT / "docs/console.md").read_text()
BYTES_MAX = 80_000


def shown() -> set[str]:
    return set(re.findall(r'(?:src|srcset)="pictures/([^"]+)"', PAGE))


def test_every_picture_is_one_that_is_taken() -> None:
    assert shown() <= pictures().keys()
    assert {path.name for path in FOLDER.iterdir()} == pictures().keys()


def test_every_page_is_shown_in_light_and_dark() -> None:
    wanted = {f"{each.name}{kind}.webp" for each in EXAMPLES for kind in ("", "-dark")}
    assert wanted <= shown()
    assert any(name.endswith("-phone.webp") for name in shown())


def test_every_picture_has_words() -> None:
    assert all(re.search(r'alt="[^"]+"', each) for each in re.findall(r"<img[^>]*>", PAGE))


def test_pictures_are_small() -> None:
    large = {path.name: path.stat().st_size for path in FOLDER.iterdir()}
    assert {name: size for name, size in large.items() if size > BYTES_MAX} == {}

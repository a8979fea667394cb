"""Templates become HTML here, with everything that is shown made harmless first.

Rules: whatever a template shows is escaped (jinja2's ``autoescape``); a name that a template does
not know is an error. Numbers, sizes, times and durations look alike on all pages; what is not known
is a dash that says so.
"""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from oncelog_console.commands import Command, CommandLine
from oncelog_console.look import Look, iso

PACKAGE = "oncelog_console"
UNKNOWN = Markup('<span class="unknown" title="not known">–</span>')
BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


@dataclass(frozen=True, slots=True)
class StaticFile:
    """Browsers load this file of the wheel; ``tag`` changes when it does."""

    content: bytes
    media_type: str
    tag: str


def static_files() -> dict[str, StaticFile]:
    """Return every file that browsers load, by name."""
    found: dict[str, StaticFile] = {}
    for entry in files(PACKAGE).joinpath("static").iterdir():
        if entry.is_file() and not entry.name.endswith(".toml"):
            content = entry.read_bytes()
            kind = mimetypes.guess_type(entry.name)[0] or "application/octet-stream"
            tag = hashlib.sha256(content).hexdigest()[:16]
            found[entry.name] = StaticFile(content, kind, tag)
    return found


class Renderer:
    """It makes pages of templates.

    :param static: files that pages name.
    """

    def __init__(self, static: Mapping[str, StaticFile]) -> None:
        self._static = static
        self._environment = Environment(
            loader=PackageLoader(PACKAGE),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters.update(
            {
                "bytes": size_text,
                "command": command_text,
                "duration": duration_text,
                "iso": iso,
                "number": number_text,
                "per_second": per_second_text,
                "segment": segment,
                "time": _time,
            }
        )
        self._environment.globals["static"] = self._address_of
        self._environment.globals["page_root"] = is_below

    def page(self, template: str, values: Mapping[str, Any]) -> str:
        """Return the HTML of a page."""
        return self._environment.get_template(template).render(values)

    def _address_of(self, name: str) -> str:
        return f"/static/{name}?v={self._static[name].tag}"


def is_below(path: str, address: str) -> bool:
    """Return whether an address belongs to the part of the console that begins at a path."""
    plain = address.partition("?")[0]
    return plain == path or (path != "/" and plain.startswith(path + "/"))


def segment(name: object) -> str:
    """Return a name as one part of an address's path."""
    return quote(str(name), safe="")


def command_text(line: Command | CommandLine, profile: str = "") -> str:
    """Return a command line that a POSIX shell takes, word by word.

    :param profile: the profile of ``--profile``; "" names none.
    """
    return (line if isinstance(line, CommandLine) else CommandLine(line)).text(profile)


def number_text(value: float | None) -> str | Markup:
    """Return a number with its thousands apart."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def size_text(value: float | None) -> str | Markup:
    """Return a number of bytes with a unit of 1,024."""
    if value is None:
        return UNKNOWN
    size, unit = float(value), 0
    while size >= 1024 and unit < len(BYTE_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:,.0f} {BYTE_UNITS[unit]}" if unit == 0 else f"{size:,.1f} {BYTE_UNITS[unit]}"


def per_second_text(value: float | None) -> str | Markup:
    """Return a rate, in thousands or millions where it is large."""
    if value is None:
        return UNKNOWN
    for size, unit in ((1e6, " M"), (1e3, " K")):
        if value >= 10 * size or (unit == " M" and value >= size):
            return f"{value / size:,.1f}{unit}/s"
    return f"{value:,.0f}/s" if value >= 10 or value == 0 else f"{value:.1f}/s"


def duration_text(ms: float | None) -> str | Markup:
    """Return a duration of milliseconds in the two largest units that say something."""
    if ms is None:
        return UNKNOWN
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 10_000:
        return f"{ms / 1000:.1f} s".replace(".0 s", " s")
    seconds = int(ms // 1000)
    parts = []
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


@pass_context
def _time(context: Context, wall_ms: int | None) -> str | Markup:
    if wall_ms is None:
        return UNKNOWN
    look: Look = context["look"]
    text = f'<time datetime="{{}}" data-zone="{{}}">{{}}<small>.{wall_ms % 1000:03d}</small></time>'
    return Markup(text).format(iso(wall_ms), look.zone, look.text(wall_ms))

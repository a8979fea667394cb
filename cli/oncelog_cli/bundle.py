"""A support bundle is one zip file, whose parts are bounded in size.

Rules: a part that cannot be had is noted in the manifest and harms no other; a part that is larger
than its share is cut, a log at its beginning, anything else left out with a note. Nothing is in it
that was written by producers, and values of settings whose names say that they are secret are
masked; the brokers mask their own.
"""

from __future__ import annotations

import json
import re
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BYTES_MAX = 20 * 1024 * 1024
"""The bound on all parts together before compression; a mail takes what it becomes."""
LOG_BYTES_MAX = 2 * 1024 * 1024
"""The bound on what is taken of one log, from its end."""
MANIFEST = "manifest.json"
MASK = "******"

_SECRET = r"password|passwd|secret|token|credential|private_?key"
_SECRET_LINE = re.compile(
    rf"^(\s*[\"']?[\w.-]*(?:{_SECRET})[\w.-]*[\"']?\s*[=:]\s*).+$", re.IGNORECASE | re.MULTILINE
)
_SECRET_NAME = re.compile(_SECRET, re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class BundlePart:
    """A part is one file of the bundle, or the reason why it is not there."""

    name: str
    size_bytes: int = 0
    error: str = ""
    cut: bool = False
    """Whether only the end of it is there."""


@dataclass(slots=True)
class Bundle:
    """A bundle is a zip file that is being filled."""

    archive: zipfile.ZipFile
    bytes_left: int = BYTES_MAX
    parts: list[BundlePart] = field(default_factory=list)

    def add_json(self, name: str, document: Any) -> None:
        """Add a document as JSON, if there is room for it."""
        text = json.dumps(document, ensure_ascii=False, indent=1, default=str)
        self.add(name, text.encode("utf-8", "surrogateescape"))

    def add(self, name: str, data: bytes, *, cut: bool = False) -> None:
        """Add a file, if there is room for it."""
        if len(data) > self.bytes_left:
            self.fail(name, f"left out: {len(data)} bytes, {self.bytes_left} were left")
            return
        self.bytes_left -= len(data)
        self.archive.writestr(name, data)
        self.parts.append(BundlePart(name, len(data), cut=cut))

    def add_log(self, name: str, path: Path) -> None:
        """Add the end of a log file."""
        try:
            with path.open("rb") as stream:
                size = stream.seek(0, 2)
                wanted = min(size, LOG_BYTES_MAX, self.bytes_left)
                stream.seek(size - wanted)
                data = stream.read(wanted)
        except OSError as error:
            self.fail(name, error.strerror or str(error))
            return
        if wanted < size:
            data = data.partition(b"\n")[2]  # the first line may have lost its beginning
        self.add(name, masked_text(data.decode("utf-8", "replace")).encode(), cut=wanted < size)

    def add_settings(self, name: str, path: Path) -> None:
        """Add a file of settings, with secrets masked."""
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            self.fail(name, error.strerror or str(error))
            return
        self.add(name, masked_text(text).encode())

    def fail(self, name: str, reason: str) -> None:
        """A part is not there."""
        self.parts.append(BundlePart(name, error=reason or "no reason was given"))

    def finish(self, facts: dict[str, Any]) -> None:
        """Write the manifest, which comes last and always."""
        rows = [
            {
                "name": part.name,
                "size_bytes": part.size_bytes,
                "cut": part.cut,
                "error": part.error or None,
            }
            for part in self.parts
        ]
        text = json.dumps({**facts, "parts": rows}, indent=1, default=str)
        self.archive.writestr(MANIFEST, text)


def masked_text(text: str) -> str:
    """Return lines of settings without the values that are secrets."""
    return _SECRET_LINE.sub(rf'\g<1>"{MASK}"', text)


def masked_value(key: str, value: str | None) -> str | None:
    """Return the value of a setting, masked if its name says that it is a secret."""
    return MASK if value is not None and _SECRET_NAME.search(key) else value

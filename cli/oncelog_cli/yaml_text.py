"""Documents are written as YAML: the part of it that JSON values need. Pure.

Plain words are written without quotes where no reader of YAML, 1.1 or 1.2, could take them for
anything but text; all other text as a JSON string, which is YAML too.
"""

from __future__ import annotations

import json
import re
from typing import Any

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./ -]*[A-Za-z0-9_/]|[A-Za-z_]", re.ASCII)
_WORDS = frozenset(
    {"true", "false", "yes", "no", "on", "off", "null", "nan", "inf", "y", "n", "t", "f"}
)
"""Words in small letters that some reader takes for something else than text."""
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")
"""Characters that JSON leaves as they are, and YAML wants escaped."""


def to_yaml(document: Any) -> str:
    """Return a JSON value as a YAML document, without the newline at its end."""
    return "\n".join(_lines(document)) if isinstance(document, dict | list) else _scalar(document)


def _lines(value: Any) -> list[str]:
    """Return the lines of a collection."""
    if not value:
        return ["{}" if isinstance(value, dict) else "[]"]
    lines: list[str] = []
    if isinstance(value, dict):
        for key, item in value.items():
            name = _scalar(str(key))
            if isinstance(item, dict | list) and item:
                lines += [f"{name}:", *(f"  {line}" for line in _lines(item))]
            else:
                lines.append(f"{name}: {_one_line(item)}")
        return lines
    for item in value:
        first, *rest = _lines(item) if isinstance(item, dict | list) else [_scalar(item)]
        lines += [f"- {first}", *(f"  {line}" for line in rest)]
    return lines


def _one_line(value: Any) -> str:
    return _lines(value)[0] if isinstance(value, dict | list) else _scalar(value)


def _scalar(value: Any) -> str:
    if not isinstance(value, str):
        text = json.dumps(value)
        # 1e+16 is text to YAML 1.1, 1.0e+16 is a number to all.
        if isinstance(value, float) and "e" in text and "." not in text:
            return text.replace("e", ".0e")
        return text
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    quoted = json.dumps(value, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)

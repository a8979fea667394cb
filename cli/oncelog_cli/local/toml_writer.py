"""Settings are written as TOML, which the standard library reads but does not write.

Covers what a broker's file holds: strings, numbers, booleans, lists, tables and lists of tables.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TypeAlias

Value: TypeAlias = "str | int | float | bool | list[Value] | Mapping[str, Value]"

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(settings: Mapping[str, Value]) -> str:
    """Return one line a setting; tables come last, as TOML wants it. None is left out."""
    plain: list[str] = []
    tables: list[str] = []
    for key, value in settings.items():
        if isinstance(value, Mapping):
            tables += ["", f"[{_key(key)}]", to_toml(value).rstrip("\n")]
        elif isinstance(value, list) and value and all(isinstance(v, Mapping) for v in value):
            for item in value:
                assert isinstance(item, Mapping)
                tables += ["", f"[[{_key(key)}]]", to_toml(item).rstrip("\n")]
        else:
            plain.append(f"{_key(key)} = {_scalar(value)}")
    return "\n".join(plain + tables) + "\n"


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _string(key)


def _string(text: str) -> str:
    # A JSON string is a TOML basic string, but for DEL, which TOML wants escaped too.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _scalar(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, list):
        return "[" + ", ".join(_scalar(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(k)} = {_scalar(v)}" for k, v in value.items()) + "}"
    return repr(value)

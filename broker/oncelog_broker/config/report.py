"""This module shows the settings that hold, each with its value, its origin and its default.
Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from oncelog_broker.config.errors import ConfigError
from oncelog_broker.config.layers import DEFAULT, Place, is_map
from oncelog_broker.config.marks import is_dynamic, is_secret
from oncelog_broker.config.sources import Loaded

MASK = "********"


@dataclass(frozen=True, slots=True)
class Shown:
    """This row shows one setting, or one part of a listener or a map, as people may see it."""

    key: str
    value: str | None
    origin: str
    default: str | None
    dynamic: bool
    """It tells whether the setting may change while the broker runs."""

    def document(self) -> dict[str, Any]:
        """Return the row as JSON takes it."""
        return {
            "key": self.key,
            "value": self.value,
            "origin": self.origin,
            "default": self.default,
            "dynamic": self.dynamic,
        }


def shown_settings(loaded: Loaded) -> list[Shown]:
    """Return every setting, in the order of the model; listeners and maps come part by part."""
    config = loaded.config
    rows: list[Shown] = []
    for key, field in type(config).model_fields.items():
        value = getattr(config, key)
        default = as_text(field.default) if not field.is_required() else None
        parts = list(_parts(key, value))
        for name, place, part in parts:
            rows.append(
                Shown(
                    name,
                    masked(field, part),
                    str(loaded.layers.set_by(place)),
                    masked(field, default) if place == (key,) else None,
                    is_dynamic(field),
                )
            )
        if not parts:
            origin = str(loaded.layers.origin((key,)))
            rows.append(Shown(key, as_text(value), origin, default, is_dynamic(field)))
    return rows


def chosen_settings(loaded: Loaded) -> dict[str, str | None]:
    """Return what somebody has set, by key: a broker logs it when it starts."""
    return {row.key: row.value for row in shown_settings(loaded) if row.origin != str(DEFAULT)}


def mistakes_document(error: ConfigError) -> dict[str, Any]:
    """Return every mistake, as JSON takes it."""
    return {
        "errors": [
            {
                "key": each.key,
                "origin": each.source,
                "problem": each.problem,
                "remedy": each.remedy,
                "message": each.message,
            }
            for each in error.all
        ]
    }


def table(rows: Sequence[Shown]) -> list[str]:
    """Return lines for people, with key, value and origin in columns."""
    cells = [(row.key, "-" if row.value is None else row.value, row.origin) for row in rows]
    cells = [("KEY", "VALUE", "ORIGIN"), *cells]
    widths = [max(len(cell[column]) for cell in cells) for column in (0, 1)]
    return [f"{key:{widths[0]}}  {value:{widths[1]}}  {origin}" for key, value, origin in cells]


def masked(field: FieldInfo, value: Any) -> str | None:
    """Return a value as text, or the mask of a secret; a secret that is not set shows as such."""
    text = as_text(value)
    return MASK if text and is_secret(field) else text


def as_text(value: Any) -> str | None:
    """Return a value as one would write it in a variable; None stays None."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    assert isinstance(value, BaseModel)
    return value.model_dump(mode="json")


def _parts(key: str, value: Any) -> Iterator[tuple[str, Place, Any]]:
    """Yield a row (name, place, value) for everything that is shown in lines of its own."""
    if key == "listeners":
        for index, listener in enumerate(value):
            for part, item in listener.model_dump(mode="json").items():
                if part != "name":
                    yield f"{key}.{listener.name}.{part}", (key, index, part), item
    elif is_map(key):
        for name in sorted(value):
            yield f"{key}.{name}", (key, name), value[name]
    else:
        yield key, (key,), value

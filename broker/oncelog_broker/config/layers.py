"""Settings of several sources are laid over each other here, and each value keeps its origin. Pure.

Rules
-----
* A later layer overrides an earlier one, part by part: one port of one listener, one entry of a
  map. A listener is known by its name, not by its place in the list.
* A source that gives a whole list or map replaces what lay below.
* The parts of a setting are named by a path: ``listeners``, ``internal``, ``port``.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oncelog_broker.config.model import BrokerConfig, ListenerConfig

Place = tuple[str | int, ...]
"""A place is a key and what is inside of it, as pydantic locates mistakes: ("listeners", 0,
"port")."""


class NoSuchPartError(Exception):
    """A path leads nowhere; the text says why."""


@dataclass(frozen=True, slots=True)
class Origin:
    """An origin tells where a value came from: "default", "file", "environment" or "flag", and its
    name there."""

    kind: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.name else self.kind


DEFAULT = Origin("default")


class Layers:
    """It gathers the settings so far. Put layers in order, the strongest last."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        """The values are as the model takes them. A setting that nobody has set is missing."""
        self._origins: dict[Place, Origin] = {}

    def origin(self, place: Place) -> Origin:
        """Return who set what is at ``place``, or else the nearest thing that holds it."""
        for length in range(len(place), 0, -1):
            found = self._origins.get(place[:length])
            if found is not None:
                return found
        return DEFAULT

    def set_by(self, place: Place) -> Origin:
        """Return who set just this: the whole of a setting, a part of a listener, or an entry of a
        map."""
        return self._origins.get(place, DEFAULT)

    def origins_within(self, key: str) -> list[Origin]:
        """Return everybody who has set a part of ``key``, once each."""
        return list(dict.fromkeys(o for place, o in self._origins.items() if place[0] == key))

    def put(self, key: str, value: Any, origin: Origin) -> None:
        """Set the whole of a setting; listeners may be a table by name."""
        if key == "listeners" and isinstance(value, Mapping):
            for name, parts in value.items():
                if not isinstance(parts, Mapping):
                    raise NoSuchPartError(f"listener {name!r} must be a table")
                for part, item in parts.items():
                    self._put_listener(str(name), str(part), item, origin)
            return
        if is_map(key) and isinstance(value, Mapping):
            for name, item in value.items():
                self._put_entry(key, str(name), item, origin)
            return
        self._forget(key)
        self.values[key] = value
        self._origins[(key,)] = origin
        if key == "listeners" and isinstance(value, list):
            for index, listener in enumerate(value):
                for part in listener if isinstance(listener, Mapping) else ():
                    self._origins[key, index, str(part)] = origin

    def put_text(self, path: Sequence[str], text: str, origin: Origin) -> None:
        """Apply the text of a variable or an argument: the whole of a setting, or one part.

        :raises NoSuchPartError: the path leads nowhere, or the text is not what it must be.
        """
        key, parts = path[0], path[1:]
        if not parts:
            whole = _whole(key, text)
            if is_map(key) or key == "listeners":
                self._forget(key)
            self.put(key, whole, origin)
        elif key == "listeners":
            if len(parts) != 2:
                raise NoSuchPartError("a part of a listener is its name and one of its settings")
            name, part = parts[0], parts[1].lower()
            self._put_listener(name, part, _one(ListenerConfig, part, text), origin)
        elif is_map(key):
            self._put_entry(key, ".".join(parts), text, origin)
        else:
            raise NoSuchPartError(f"{key} has no parts")

    def _put_entry(self, key: str, name: str, value: Any, origin: Origin) -> None:
        if key == "topic_defaults":
            name = name.replace(".", "_")  # one spelling, so that layers meet
        entries = self.values.setdefault(key, {})
        if not isinstance(entries, dict):
            raise NoSuchPartError(f"{key} below this is no table")
        entries[name] = value
        self._origins[key, name] = origin

    def _put_listener(self, name: str, part: str, value: Any, origin: Origin) -> None:
        listeners = self._listeners()
        names = [str(listener.get("name", "")).lower() for listener in listeners]
        if name.lower() in names:
            index = names.index(name.lower())
        else:
            index = len(listeners)
            listeners.append({"name": name})
            self._origins["listeners", index] = origin
        listeners[index][part] = value
        self._origins["listeners", index, part] = origin

    def _listeners(self) -> list[dict[str, Any]]:
        """Return the listeners of the layers below, or the default's if no layer has any."""
        held = self.values.get("listeners")
        if held is None:
            default = BrokerConfig.model_fields["listeners"].default
            held = self.values["listeners"] = [{"name": each.name} for each in default]
        if not isinstance(held, list) or not all(isinstance(each, dict) for each in held):
            raise NoSuchPartError("listeners below this are no list of tables")
        return held

    def _forget(self, key: str) -> None:
        self.values.pop(key, None)
        for place in [place for place in self._origins if place[0] == key]:
            del self._origins[place]


def is_map(key: str) -> bool:
    """Return whether a setting is a map of names to values."""
    field = BrokerConfig.model_fields.get(key)
    return field is not None and typing.get_origin(field.annotation) is dict


def _is_list(model: type[BrokerConfig] | type[ListenerConfig], key: str) -> bool:
    field = model.model_fields.get(key)
    return field is not None and typing.get_origin(field.annotation) is list


def _whole(key: str, text: str) -> Any:
    """Parse the text of a whole setting: JSON for what has parts, or commas between texts."""
    if is_map(key) or key == "listeners":
        return _json(text)
    return _one(BrokerConfig, key, text)


def _one(model: type[BrokerConfig] | type[ListenerConfig], key: str, text: str) -> Any:
    """Parse the text of a setting without parts."""
    if _is_list(model, key):
        return _json(text) if text.lstrip().startswith("[") else _split(text)
    return _nothing(model, key, text)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as exc:
        raise NoSuchPartError(f"is not JSON: {exc}") from exc


def _split(text: str) -> list[str]:
    return [item.strip() for item in text.split(",")]


def _nothing(model: type[BrokerConfig] | type[ListenerConfig], key: str, text: str) -> str | None:
    """Return None for an empty text if the setting may be None, and the text otherwise."""
    field = model.model_fields.get(key)
    may_be_none = field is not None and types.NoneType in typing.get_args(field.annotation)
    return None if may_be_none and not text else text

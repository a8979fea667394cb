"""This module reads settings from the TOML file, the environment and the arguments.

The sources are, weakest first: default, TOML file, environment (``ONCELOG_`` and the name in
capitals), arguments. Every mistake becomes a :class:`ConfigError` that names the key, the place and
the remedy, all of them at once; ``__main__`` turns them into exit code 2. The environment is handed
in: nothing here reads it.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from oncelog_broker.config.errors import ConfigError, InconsistentError
from oncelog_broker.config.layers import DEFAULT, Layers, NoSuchPartError, Origin, Place
from oncelog_broker.config.model import BrokerConfig, ListenerConfig
from oncelog_runtime.spelling import nearest

ENV_PREFIX = "ONCELOG_"
NESTING = "__"
OF_THE_COMMAND = ("BOOTSTRAP", "DIR", "OPTIONS", "PROFILE")
"""The ``oncelog`` command reads these variables, so they are no mistakes of the broker."""
NEAR = 0.8
"""A variable that is at least so like a setting is taken for a slip of the pen."""

REQUIRED = {"broker_id": 0, "log_dirs": ["/"]}
"""These stand in for required settings that are missing, so that the rest can be looked at as a
whole."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """These are settings together with their origins."""

    config: BrokerConfig
    layers: Layers
    ignored: tuple[str, ...] = ()
    """These variables have our prefix, but are no setting and resemble none."""


def load_config(
    path: str | None,
    *,
    environment: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
) -> BrokerConfig:
    """Make the settings of the TOML file at ``path``, an environment and ``KEY=VALUE``
    arguments.

    :raises ConfigError: the file cannot be read, or a setting does not hold.
    """
    return load(path, environment=environment, arguments=arguments, required=()).config


def load(
    path: str | None,
    *,
    environment: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
    required: Sequence[str] = ("zookeeper_connect",),
) -> Loaded:
    """Do what :func:`load_config` does, and keep where each value came from. ``required`` are texts
    that only a broker in a process of its own cannot do without."""
    layers = Layers()
    mistakes: list[ConfigError] = []
    if path is not None:
        _lay_file(layers, path, _read_toml(path), mistakes)
    ignored = _lay_environment(layers, environment or {}, mistakes)
    _lay_arguments(layers, arguments, mistakes)
    source = path or "settings"
    mistakes += [_missing((key,), source) for key in required if not layers.values.get(key)]
    config = _validated(layers, source, mistakes)
    if config is None:
        raise ConfigError.of_all(mistakes)
    return Loaded(config, layers, ignored)


# ---- layers


def _lay_file(
    layers: Layers, path: str, values: Mapping[str, Any], mistakes: list[ConfigError]
) -> None:
    origin = Origin("file", path)
    for key, value in values.items():
        try:
            layers.put(key, value, origin)
        except NoSuchPartError as exc:
            mistakes.append(ConfigError(key, str(exc), "Correct it", path))
    mistakes += _type_mistakes(layers.values, layers, path)


def _lay_environment(
    layers: Layers, environment: Mapping[str, str], mistakes: list[ConfigError]
) -> tuple[str, ...]:
    ignored: list[str] = []
    for name in sorted(environment):
        if not name.startswith(ENV_PREFIX):
            continue
        path = name.removeprefix(ENV_PREFIX).split(NESTING)
        key = path[0].lower()
        if key in BrokerConfig.model_fields:
            path = [key, *(part.lower() for part in path[1:])]
            _put_text(layers, path, environment[name], Origin("environment", name), mistakes)
        elif name.removeprefix(ENV_PREFIX) in OF_THE_COMMAND:
            continue
        elif near := nearest(key, BrokerConfig.model_fields, NEAR):
            remedy = f"Did you mean {ENV_PREFIX}{near.upper()}?"
            source = str(Origin("environment", name))
            mistakes.append(ConfigError(key, "there is no such setting", remedy, source))
        else:
            ignored.append(name)
    return tuple(ignored)


def _lay_arguments(layers: Layers, arguments: Sequence[str], mistakes: list[ConfigError]) -> None:
    for argument in arguments:
        origin = Origin("flag", f"--set {argument.partition('=')[0]}")
        name, equals, text = argument.partition("=")
        path = name.strip().split(".")
        if not equals:
            mistakes.append(ConfigError(name, "has no value", "Write --set KEY=VALUE", str(origin)))
        elif path[0] not in BrokerConfig.model_fields:
            remedy = _did_you_mean(path[0])
            mistakes.append(ConfigError(name, "there is no such setting", remedy, str(origin)))
        else:
            _put_text(layers, path, text, origin, mistakes)


def _put_text(
    layers: Layers, path: Sequence[str], text: str, origin: Origin, mistakes: list[ConfigError]
) -> None:
    try:
        layers.put_text(path, text, origin)
    except NoSuchPartError as exc:
        mistakes.append(ConfigError(".".join(path), str(exc), "Correct it", str(origin)))


def _read_toml(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except FileNotFoundError as exc:
        raise ConfigError(
            "", "there is no such configuration file", "Check the path given by --config", path
        ) from exc
    except OSError as exc:
        remedy = "Make it a file that this user may read"
        raise ConfigError("", f"cannot be read ({exc.strerror})", remedy, path) from exc
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise ConfigError("", f"is not TOML: {exc}", "Correct the line", path) from exc


# ---- mistakes


def _type_mistakes(values: Mapping[str, Any], layers: Layers, path: str) -> list[ConfigError]:
    """Return the values of a file that have the wrong type: TOML has types, so "1" is not 1.
    Missing settings and contradictions are found later, when every source is laid."""
    try:
        text = json.dumps(values)
    except TypeError as exc:
        return [ConfigError("", str(exc), "Use strings and numbers; no setting is a date", path)]
    try:
        BrokerConfig.model_validate_json(text, strict=True)
    except ValidationError as exc:
        return [
            _mistake(error, layers, path)
            for error in exc.errors()
            if error["type"] not in ("missing", "value_error")
        ]
    return []


def _validated(layers: Layers, source: str, mistakes: list[ConfigError]) -> BrokerConfig | None:
    """Return the settings, or None and every further mistake in ``mistakes``."""
    try:
        config = BrokerConfig.model_validate(layers.values)
    except ValidationError as exc:
        known = {mistake.key for mistake in mistakes}
        wrong: set[str] = set()
        for error in exc.errors():
            wrong.add(str(error["loc"][0]) if error["loc"] else "")
            found = _mistakes(error, layers, source)
            mistakes += [mistake for mistake in found if mistake.key not in known]
        if "" not in wrong:
            mistakes += _inconsistencies(layers, source, wrong)
        return None
    return None if mistakes else config


def _inconsistencies(layers: Layers, source: str, wrong: set[str]) -> list[ConfigError]:
    """Return what does not fit together among the settings that are not wrong by themselves."""
    rest = {key: value for key, value in layers.values.items() if key not in wrong}
    try:
        BrokerConfig.model_validate({**REQUIRED, **rest})
    except ValidationError as exc:
        return [
            mistake
            for error in exc.errors()
            for problem in _problems(error)
            if not wrong & {*problem.involved}
            for mistake in [_of_problem(problem, layers, source)]
        ]
    return []


def _mistakes(error: Any, layers: Layers, source: str) -> list[ConfigError]:
    found = [_of_problem(problem, layers, source) for problem in _problems(error)]
    return found or [_mistake(error, layers, source)]


def _problems(error: Any) -> Sequence[Any]:
    cause = error.get("ctx", {}).get("error")
    return cause.problems if isinstance(cause, InconsistentError) else ()


def _of_problem(problem: Any, layers: Layers, source: str) -> ConfigError:
    """Return the error with the place of the part that is wrong, or of whoever set the setting
    last."""
    parts = problem.key.split(".")
    origin = layers.origin(tuple(int(part) if part.isdecimal() else part for part in parts))
    setters = layers.origins_within(parts[0])
    if origin is DEFAULT and setters:
        origin = setters[-1]
    return ConfigError(problem.key, problem.text, problem.remedy, _where(origin, source))


def _mistake(error: Any, layers: Layers, source: str) -> ConfigError:
    """Return in our words what pydantic says of one value."""
    place: Place = error["loc"]
    key, kind = ".".join(str(part) for part in place), error["type"]
    where = _where(layers.origin(place), source)
    if kind == "extra_forbidden":
        return ConfigError(key, "there is no such setting", _did_you_mean(key), where)
    if kind == "missing":
        return _missing(place, where)
    message = error["msg"].removeprefix("Value error, ")
    if kind == "value_error":
        problem, _, remedy = message.rpartition(": ")
        if problem:
            return ConfigError(key, problem, remedy[0].upper() + remedy[1:], where)
        return ConfigError(key, message, "Correct the value", where)
    given = f", not {error['input']!r}"[:80]
    return ConfigError(key, message[0].lower() + message[1:] + given, "Correct the value", where)


def _missing(place: Place, source: str) -> ConfigError:
    key = ".".join(str(part) for part in place)
    variable = ENV_PREFIX + NESTING.join(str(part).upper() for part in place)
    return ConfigError(
        key, "is required", f"Add {key} = ... to the file, or set {variable}", source
    )


def _where(origin: Origin, source: str) -> str:
    """Return the place to name in an error; a file goes by its name alone, as editors like it."""
    if origin.kind == "default":
        return source
    return origin.name if origin.kind == "file" else str(origin)


def _did_you_mean(key: str) -> str:
    known = [*BrokerConfig.model_fields, *ListenerConfig.model_fields]
    near = nearest(key.rpartition(".")[2], known)
    return f"Did you mean {near!r}?" if near else "Remove it"

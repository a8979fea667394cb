"""Settings can be changed here while brokers run (KIP-226): they are checked and applied. Pure.

It says how they are named, which values they may have, and which settings are in force with them.

Rules
-----
* A setting for one broker overrides one for all brokers, and that overrides the value that the
  broker was started with: file, environment, arguments.
* A setting that only makes sense when all brokers agree is set for all of them, or not at all.
* A setting is checked when it is set: by itself, and together with everything else.
* An invalid setting in the store stops no broker: it is left out and named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from oncelog_broker.config.consistency import text_fault
from oncelog_broker.config.errors import InconsistentError
from oncelog_broker.config.layers import is_map
from oncelog_broker.config.marks import is_cluster_wide, is_dynamic
from oncelog_broker.config.model import BrokerConfig
from oncelog_broker.config.report import as_text
from oncelog_protocol.errors import InvalidConfigError
from oncelog_protocol.messages.admin import ConfigEntry
from oncelog_protocol.messages.replication import BROKER_DEFAULT
from oncelog_protocol.topic_config import normalise_key
from oncelog_runtime.spelling import nearest

Texts = Mapping[str, str]

NEEDS_RESTART = "{} needs a restart: set it in the file or the environment"
NEAR = 0.6


def altered(
    config: BrokerConfig,
    broker_id: int,
    configs: Mapping[int, Texts],
    entries: Iterable[ConfigEntry],
) -> dict[str, str]:
    """Return what would be set for a broker (-1: for all) with ``entries`` over ``configs``, on
    brokers that were started with ``config``. Keys and values come in their one spelling.

    :raises InvalidConfigError: names the key, the value and what is allowed.
    """
    result = dict(configs.get(broker_id, {}))
    seen: set[str] = set()
    for entry in entries:
        known = entry.value is None and entry.key in result
        key = entry.key if known else normalised(entry.key)
        if key in seen:
            raise InvalidConfigError(f"{key} is named more than once")
        seen.add(key)
        if entry.value is None:
            result.pop(key, None)
        else:
            _check_may_be_set(key, broker_id)
            result[key] = _canonical(key, entry.value)
    default = configs.get(BROKER_DEFAULT, {})
    if broker_id != BROKER_DEFAULT:
        overlaid(config, default, result)
        return result
    overlaid(config, result)
    for other, own in sorted(configs.items()):
        if other != BROKER_DEFAULT:
            try:
                overlaid(config, result, own)
            except InvalidConfigError as error:
                raise InvalidConfigError(f"on broker {other}, with its own: {error}") from error
    return result


def overlaid(config: BrokerConfig, *layers: Texts) -> BrokerConfig:
    """Return ``config`` with layers of texts over it, the strongest last.

    :raises InvalidConfigError: the result does not hold.
    """
    values: dict[str, Any] = config.model_dump()
    defaults = values["topic_defaults"]
    values["topic_defaults"] = {normalise_key(key): value for key, value in defaults.items()}
    for layer in layers:
        for key, text in layer.items():
            field, _, entry = key.partition(".")
            if entry:
                values[field] = {**values[field], entry: text}
            else:
                values[field] = text
    try:
        return BrokerConfig.model_validate(values)
    except ValidationError as error:
        raise InvalidConfigError("; ".join(_said(each) for each in error.errors())) from None


def tolerant(
    config: BrokerConfig, default: Texts, own: Texts
) -> tuple[BrokerConfig, dict[str, str], dict[str, str], list[str]]:
    """Apply what the store holds for all brokers and for this one, and leave out what is invalid.

    Return the settings, what counts of either layer, and what was left out, with the reason.
    """
    faults: list[str] = []
    kept_default = _possible(default, BROKER_DEFAULT, faults)
    kept_own = _possible(own, config.broker_id, faults)
    try:
        return overlaid(config, kept_default, kept_own), kept_default, kept_own, faults
    except InvalidConfigError:
        pass
    current = config
    for layer in (kept_default, kept_own):
        for key in list(layer):
            try:
                current = overlaid(current, {key: layer[key]})
            except InvalidConfigError as error:
                faults.append(str(error))
                del layer[key]
    return current, kept_default, kept_own, faults


def normalised(key: str) -> str:
    """Return the one spelling of a key: the setting in snake case, and after a dot the entry of a
    map. Kafka's dots are taken too.

    :raises InvalidConfigError: there is no such setting, or it is one of a listener.
    """
    fields = BrokerConfig.model_fields
    plain = key.replace(".", "_")
    if plain in fields:
        if is_map(plain):
            raise InvalidConfigError(f"{plain} is a map: name one entry, as in {plain}.NAME")
        return plain
    for field in fields:
        for spelling in (f"{field}.", f"{field.replace('_', '.')}."):
            entry = key.removeprefix(spelling)
            if is_map(field) and entry != key and entry:
                return f"{field}.{normalise_key(entry) if field == 'topic_defaults' else entry}"
    if key.startswith("listeners."):
        raise InvalidConfigError(NEEDS_RESTART.format(key[:100]))
    near = nearest(plain, fields, NEAR)
    hint = f"did you mean {near}?" if near else "see the reference of broker settings"
    raise InvalidConfigError(f"{key[:100]!r} is not a setting of brokers; {hint}")


def may_change(key: str) -> bool:
    """Return whether a setting, or an entry of one, may change while the broker runs."""
    return is_dynamic(BrokerConfig.model_fields[key.partition(".")[0]])


def _check_may_be_set(key: str, broker_id: int) -> None:
    field = BrokerConfig.model_fields[key.partition(".")[0]]
    if not is_dynamic(field):
        raise InvalidConfigError(NEEDS_RESTART.format(key))
    if is_cluster_wide(field) and broker_id != BROKER_DEFAULT:
        raise InvalidConfigError(f"{key} must be the same on all brokers: set it for all of them")


def _canonical(key: str, text: str) -> str:
    """Return the value as we would write it."""
    fault = text_fault(text)
    if fault is not None:
        raise InvalidConfigError(f"{key}: {fault[0]}. {fault[1]}")
    name, _, entry = key.partition(".")
    field = BrokerConfig.model_fields[name]
    kind: Any = Annotated[field.annotation, field]
    adapter = TypeAdapter[Any](kind)
    try:
        value = adapter.validate_python({entry: text} if entry else text)
    except ValidationError as error:
        said = error.errors()[0]
        raise InvalidConfigError(f"{key}={text[:100]!r} is not allowed: {_message(said)}") from None
    return as_text(value[entry] if entry else value) or ""


def _possible(layer: Texts, broker_id: int, faults: list[str]) -> dict[str, str]:
    """Return the part of a layer that may be set, judged by each name and value alone."""
    kept: dict[str, str] = {}
    for key, text in sorted(layer.items()):
        try:
            name = normalised(key)
            _check_may_be_set(name, broker_id)
            kept[name] = _canonical(name, text)
        except InvalidConfigError as error:
            faults.append(str(error))
    return kept


def _said(error: Any) -> str:
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, InconsistentError):
        return "; ".join(f"{each.key}: {each.text}. {each.remedy}" for each in cause.problems)
    place: Sequence[Any] = error["loc"]
    return f"{'.'.join(str(part) for part in place)}: {_message(error)}"


def _message(error: Any) -> str:
    text: str = error["msg"].removeprefix("Value error, ")
    return text[:1].lower() + text[1:]

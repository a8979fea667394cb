"""These checks find every problem of a broker's settings as a whole, all at once. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from oncelog_broker.config.errors import Problem
from oncelog_protocol.errors import InvalidConfigError
from oncelog_protocol.topic_config import parse_topic_config

VARIABLE = "${"
NUMBER_MAX = 2**63 - 1
"""This is the bound of topic settings too. Far above it times could not be counted in seconds any
more."""


def problems(values: Mapping[str, Any], topic_defaults: Mapping[str, str]) -> list[Problem]:
    """Return all that does not hold, in the order of the settings.

    :param values: every setting by its name, as ``BrokerConfig.model_dump`` gives them.
    :param topic_defaults: what topics get that do not say otherwise, as texts.
    """
    return [
        *_of_numbers(values),
        *_of_texts(values),
        *_of_listeners(values),
        *_of_times(values),
        *_of_topic_defaults(topic_defaults),
    ]


def text_fault(text: str) -> tuple[str, str] | None:
    """Return (problem, remedy) for a text that no setting may hold, and None for any other."""
    if VARIABLE in text:
        return "variables such as ${NAME} are not replaced", "Write the value itself"
    if not text.isprintable():
        return "the value holds a line break or another control character", "Remove it"
    return None


def _of_numbers(values: Mapping[str, Any]) -> Iterator[Problem]:
    for key, value in values.items():
        if type(value) is int and value > NUMBER_MAX:
            yield Problem(key, "the number is too large", "Use one up to 2^63-1")


def _of_texts(values: Mapping[str, Any]) -> Iterator[Problem]:
    for key, value in values.items():
        for path, text in _texts(key, value):
            fault = text_fault(text)
            if fault is not None:
                yield Problem(path, *fault)


def _texts(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(f"{path}.{key}", item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(f"{path}.{index}", item)


def _of_listeners(values: Mapping[str, Any]) -> Iterator[Problem]:
    listeners = values["listeners"]
    names = [listener["name"] for listener in listeners]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield Problem("listeners", f"two are named {name!r}", "Give each its own name")
    taken: dict[tuple[str, int], str] = {}
    for listener in listeners:
        host, port = listener["host"], listener["port"]
        if port and (host, port) in taken:
            yield Problem(
                "listeners",
                f"{taken[host, port]!r} and {listener['name']!r} both take {host}:{port}",
                "Give each its own port",
            )
        taken[host, port] = listener["name"]
    if values["inter_broker_listener"] not in names:
        yield Problem(
            "inter_broker_listener",
            f"{values['inter_broker_listener']!r} is none of the listeners {names}",
            "Name one of them",
            ["listeners"],
        )


def _of_times(values: Mapping[str, Any]) -> Iterator[Problem]:
    least, most = values["group_min_session_timeout_ms"], values["group_max_session_timeout_ms"]
    if least > most:
        yield Problem(
            "group_min_session_timeout_ms",
            f"{least} is above group_max_session_timeout_ms, {most}",
            "Lower it",
            ["group_max_session_timeout_ms"],
        )


def _of_topic_defaults(topic_defaults: Mapping[str, str]) -> Iterator[Problem]:
    try:
        parse_topic_config(topic_defaults)
    except InvalidConfigError as exc:
        yield Problem("topic_defaults", str(exc), "Correct the value")

"""DescribeConfigs and IncrementalAlterConfigs of Kafka are translated here.

Names of settings have dots there and underscores here. A topic's setting of Kafka that we lack is
left out where it is asked for, and refused with INVALID_CONFIG where somebody sets it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from oncelog_broker.kafka.exchange import KafkaExchange
from oncelog_broker.kafka.wire.messages.describe_configs import (
    KafkaDescribeConfigsRequest,
    KafkaDescribeConfigsRequestResource,
    KafkaDescribeConfigsResponse,
    KafkaDescribeConfigsResponseResourceResult,
    KafkaDescribeConfigsResponseResult,
)
from oncelog_broker.kafka.wire.messages.incremental_alter_configs import (
    KafkaIncrementalAlterConfigsRequest,
    KafkaIncrementalAlterConfigsRequestAlterableConfig,
    KafkaIncrementalAlterConfigsRequestAlterConfigsResource,
    KafkaIncrementalAlterConfigsResponse,
    KafkaIncrementalAlterConfigsResponseAlterConfigsResourceResponse,
)
from oncelog_broker.server.request import Buffer
from oncelog_protocol.errors import ApiError, InvalidConfigError, InvalidRequestError, error_for
from oncelog_protocol.messages.admin import (
    RESOURCE_TOPIC,
    AlterConfigsRequest,
    AlterConfigsResponse,
    ConfigAlteration,
    ConfigEntry,
    ConfigResource,
    ConfigResourceResult,
    ConfigValue,
    DescribeConfigsRequest,
)
from oncelog_protocol.topic_config import TOPIC_SETTINGS

SOURCES: Final = {
    "topic": 1, "dynamic_broker": 2, "dynamic_default": 3, "broker": 4, "default": 5,
}  # fmt: skip
"""A value comes from one of these, as Kafka numbers them."""
UNKNOWN: Final = 0
"""It stands for a source, or a kind of values, of which nothing is said."""
KINDS: Final = {"boolean": 1, "string": 2, "int": 3, "long": 5, "double": 6, "list": 7}
"""A setting of topics has values of one of these kinds, as Kafka numbers them."""

SET: Final = 0
DELETE: Final = 1
APPEND: Final = 2
SUBTRACT: Final = 3
THROTTLES: Final = frozenset(
    {
        "leader.replication.throttled.rate",
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.rate",
        "follower.replication.throttled.replicas",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)
"""Kafka's tools take these back after each reassignment, whether anybody has set them or not. We
have none of them, so there is nothing to take back."""
CLEANUP_POLICY: Final = "cleanup_policy"
"""This one setting is a list, to which one may append."""


def dotted(key: str) -> str:
    """Return the name of a setting as Kafka spells it; what a map's entry is called stays."""
    setting, dot, entry = key.partition(".")
    return setting.replace("_", ".") + dot + entry


# ---------------------------------------------------------------------------------------- describe


def describe_configs(exchange: KafkaExchange, request: KafkaDescribeConfigsRequest) -> None:
    """Tell settings of topics and brokers."""

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        results = answer.resources
        if answer.error_code:
            results = [
                ConfigResourceResult(each.resource_type, each.resource_name, answer.error_code)
                for each in request.resources
            ]
        with_text = request.include_documentation
        rows = [
            KafkaDescribeConfigsResponseResult(
                exchange.code(each.error_code),
                each.error_message,
                each.resource_type,
                each.resource_name,
                [_described(each.resource_type, value, with_text) for value in each.values],
            )
            for each in results
        ]
        exchange.answer(KafkaDescribeConfigsResponse(results=rows), counted=answer)

    resources = [
        ConfigResource(each.resource_type, each.resource_name, _known_keys(each))
        for each in request.resources
    ]
    exchange.ask(DescribeConfigsRequest(resources), then)


def _known_keys(resource: KafkaDescribeConfigsRequestResource) -> list[str] | None:
    """Return which settings are asked for, of those that there are; None: all."""
    keys = resource.configuration_keys
    if keys is None or resource.resource_type != RESOURCE_TOPIC:
        return keys
    return [key for key in keys if key.replace(".", "_") in TOPIC_SETTINGS]


def _described(
    resource_type: int, value: ConfigValue, with_text: bool
) -> KafkaDescribeConfigsResponseResourceResult:
    setting = TOPIC_SETTINGS.get(value.key) if resource_type == RESOURCE_TOPIC else None
    return KafkaDescribeConfigsResponseResourceResult(
        dotted(value.key),
        value.value,
        value.read_only,
        SOURCES.get(value.source, UNKNOWN),
        is_sensitive=value.value is None,
        config_type=UNKNOWN if setting is None else KINDS[setting.kind],
        documentation=value.documentation if with_text else None,
    )


# ------------------------------------------------------------------------------------------- alter


class _Wish:
    """It is what somebody asks of one resource."""

    __slots__ = ("asked", "entries", "error", "on_list")

    def __init__(self, asked: KafkaIncrementalAlterConfigsRequestAlterConfigsResource) -> None:
        self.asked = asked
        self.entries: list[ConfigEntry] = []
        self.on_list: list[KafkaIncrementalAlterConfigsRequestAlterableConfig] = []
        """These add to a list or take from it: what it is now must be known first."""
        self.error: ApiError | None = None
        try:
            for config in asked.configs:
                self._take(config)
        except ApiError as error:
            self.error = error

    def _take(self, config: KafkaIncrementalAlterConfigsRequestAlterableConfig) -> None:
        operation, name = config.config_operation, config.name[:100]
        if operation not in (SET, DELETE, APPEND, SUBTRACT):
            raise InvalidRequestError(f"{name}: there is no operation {operation}")
        if operation != DELETE and config.value is None:
            raise InvalidRequestError(f"{name}: a value is missing")
        if operation == DELETE and config.name in THROTTLES:
            return
        if operation in (SET, DELETE):
            value = config.value if operation == SET else None
            self.entries.append(ConfigEntry(config.name, value))
            return
        is_list = config.name.replace(".", "_") == CLEANUP_POLICY
        if not is_list or self.asked.resource_type != RESOURCE_TOPIC:
            raise InvalidConfigError(f"{name} is not a list that one can append to")
        self.on_list.append(config)

    def take_list(self, now: ConfigResourceResult) -> None:
        """Change the list as it is now."""
        if now.error_code:
            self.error = error_for(now.error_code, now.error_message or "")
            return
        words = [word.strip() for value in now.values for word in (value.value or "").split(",")]
        for config in self.on_list:
            for word in (config.value or "").split(","):
                if config.config_operation == SUBTRACT and word in words:
                    words.remove(word)
                elif config.config_operation == APPEND and word not in words:
                    words.append(word)
        self.entries.append(ConfigEntry(CLEANUP_POLICY, ",".join(words)))

    @property
    def asks_for_list(self) -> bool:
        """Return whether it must be known what the list is."""
        return bool(self.on_list) and self.error is None


def incremental_alter_configs(
    exchange: KafkaExchange, request: KafkaIncrementalAlterConfigsRequest
) -> None:
    """Change settings of topics and brokers, only those that are named."""
    wishes = [_Wish(each) for each in request.resources]
    lists = [wish for wish in wishes if wish.asks_for_list]
    if not lists:
        _alter(exchange, wishes, request.validate_only)
        return

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        results = answer.resources
        if answer.error_code:
            results = [ConfigResourceResult(RESOURCE_TOPIC, "", answer.error_code)] * len(lists)
        for wish, result in zip(lists, results, strict=True):
            wish.take_list(result)
        _alter(exchange, wishes, request.validate_only)

    exchange.ask(
        DescribeConfigsRequest(
            [
                ConfigResource(RESOURCE_TOPIC, wish.asked.resource_name, [CLEANUP_POLICY])
                for wish in lists
            ]
        ),
        then,
    )


def _alter(exchange: KafkaExchange, wishes: list[_Wish], validate_only: bool) -> None:
    asked = [wish for wish in wishes if wish.error is None]

    def answer(results: Sequence[ConfigResourceResult], counted: Any) -> None:
        found = iter(results)
        rows = []
        for wish in wishes:
            error = wish.error
            code, text = (error.code, str(error)) if error is not None else (0, None)
            if error is None:
                result = next(found)
                code, text = result.error_code, result.error_message
            rows.append(
                KafkaIncrementalAlterConfigsResponseAlterConfigsResourceResponse(
                    exchange.code(code), text, wish.asked.resource_type, wish.asked.resource_name
                )
            )
        exchange.answer(KafkaIncrementalAlterConfigsResponse(responses=rows), counted=counted)

    def then(response: Any, _: Sequence[Buffer]) -> None:
        results = response.resources
        if response.error_code and len(results) != len(asked):
            results = [ConfigResourceResult(0, "", response.error_code)] * len(asked)
        answer(results, response)

    if not asked:
        answer((), AlterConfigsResponse())
        return
    resources = [
        ConfigAlteration(wish.asked.resource_type, wish.asked.resource_name, wish.entries)
        for wish in asked
    ]
    exchange.ask(AlterConfigsRequest(resources, validate_only), then)

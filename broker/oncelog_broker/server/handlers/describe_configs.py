"""DescribeConfigs, v0, tells settings of topics, of this broker, and those set for all brokers.

Any broker answers for topics: an override comes with source "topic", a default as the broker has it
with "dynamic_default", "dynamic_broker" or "broker", else "default". A broker's own settings only
that broker knows (INVALID_REQUEST for another id); a setting that may not change while it runs is
read-only, and a secret has no value. UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST, INVALID_CONFIG (a
key that does not exist) and TOPIC_AUTHORIZATION_FAILED stand with the resource.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from oncelog_broker.server.authorizer import (
    CLUSTER,
    CLUSTER_NAME,
    DESCRIBE_CONFIGS,
    TOPIC,
    Authorizer,
)
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_protocol.errors import (
    NO_ERROR,
    ApiError,
    ClusterAuthorizationFailedError,
    InvalidRequestError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages.admin import (
    RESOURCE_BROKER,
    RESOURCE_TOPIC,
    ConfigResource,
    ConfigResourceResult,
    ConfigValue,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from oncelog_protocol.topic_config import TOPIC_SETTINGS, normalise_key


class Settings(Protocol):
    """These are the settings of this broker, as they are in force."""

    def described(self) -> Sequence[tuple[str, str | None, str, bool]]:
        """Return for each a row (key, value, source, whether it is read-only)."""
        ...

    def described_default(self) -> Sequence[tuple[str, str | None, str, bool]]:
        """Return the same of those that are set for all brokers while they run."""
        ...

    def topic_default(self, key: str) -> tuple[str, str]:
        """Return a pair (value, source) of a setting of topics, for those that do not say."""
        ...


class DescribeConfigsHandler:
    """It reads the image and the settings; it changes nothing."""

    def __init__(
        self,
        *,
        broker_id: int,
        image: MetadataImage,
        settings: Settings,
        authorizer: Authorizer,
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._settings = settings
        self._authorizer = authorizer

    def handle(
        self,
        context: RequestContext,
        request: DescribeConfigsRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Respond with one result a resource, in order."""
        results = []
        for resource in request.resources:
            result = ConfigResourceResult(resource.resource_type, resource.resource_name)
            try:
                result.values = self._values(context, resource)
            except ApiError as exc:
                result.error_code, result.error_message = exc.code, str(exc)
            results.append(result)
        respond(DescribeConfigsResponse(NO_ERROR, results))

    def _values(self, context: RequestContext, resource: ConfigResource) -> list[ConfigValue]:
        keys = resource.keys
        if resource.resource_type == RESOURCE_TOPIC:
            values = self._topic(context, resource.resource_name)
            wanted = {normalise_key(key) for key in keys or ()}
        elif resource.resource_type == RESOURCE_BROKER:
            values = self._broker(context, resource.resource_name)
            wanted = {_plain(key) for key in keys or ()}
        else:
            raise InvalidRequestError(f"resource type {resource.resource_type} has no settings")
        if keys is None:
            return values
        return [value for value in values if wanted & {_plain(value.key), _whole(value.key)}]

    def _topic(self, context: RequestContext, topic: str) -> list[ConfigValue]:
        if not self._authorizer.authorize(context, DESCRIBE_CONFIGS, TOPIC, topic):
            raise TopicAuthorizationFailedError
        if topic not in self._image.topics:
            raise UnknownTopicOrPartitionError
        overrides = {normalise_key(k): v for k, v in self._image.overrides(topic).items()}
        values = []
        for key, setting in TOPIC_SETTINGS.items():
            if key in overrides:
                value, source = overrides[key], "topic"
            else:
                value, source = self._settings.topic_default(key)
            values.append(ConfigValue(key, value, source, False, setting.documentation))
        return values

    def _broker(self, context: RequestContext, name: str) -> list[ConfigValue]:
        if not self._authorizer.authorize(context, DESCRIBE_CONFIGS, CLUSTER, CLUSTER_NAME):
            raise ClusterAuthorizationFailedError
        if name == "":
            rows = self._settings.described_default()
        elif name == str(self._broker_id):
            rows = self._settings.described()
        else:
            raise InvalidRequestError(f"ask broker {name[:32]} itself; this is {self._broker_id}")
        return [ConfigValue(*row, "") for row in rows]


def _plain(key: str) -> str:
    """Return the key whichever way its words are joined."""
    return key.replace(".", "_")


def _whole(key: str) -> str:
    """Return the setting to which a listener's part or a map's entry belongs."""
    return key.partition(".")[0]

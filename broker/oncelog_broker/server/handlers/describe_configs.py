"""DescribeConfigs, v0: settings of topics, and this broker's own.

Any broker answers for topics: an override comes with source "topic", a default set for this broker
with "broker", else "default". A broker's own settings are read-only here, and only that broker
knows them (INVALID_REQUEST for another id). UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST,
INVALID_CONFIG (a key that does not exist) and TOPIC_AUTHORIZATION_FAILED stand with the resource.
"""

from __future__ import annotations

from collections.abc import Mapping

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


class DescribeConfigsHandler:
    """``topic_defaults`` are the broker's own defaults of topic settings, ``broker_settings`` its
    settings as (value, whether it is the built-in default)."""

    def __init__(
        self,
        *,
        broker_id: int,
        image: MetadataImage,
        topic_defaults: Mapping[str, str],
        broker_settings: Mapping[str, tuple[str | None, bool]],
        authorizer: Authorizer,
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._topic_defaults = {normalise_key(k): v for k, v in topic_defaults.items()}
        self._broker_settings = broker_settings
        self._authorizer = authorizer

    def handle(
        self,
        context: RequestContext,
        request: DescribeConfigsRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """One result a resource, in order."""
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
        wanted: set[str] = set()
        if resource.resource_type == RESOURCE_TOPIC:
            values = self._topic(context, resource.resource_name)
            wanted = {normalise_key(key) for key in keys or ()}
        elif resource.resource_type == RESOURCE_BROKER:
            values = self._broker(context, resource.resource_name)
            wanted = {key.replace(".", "_") for key in keys or ()}
        else:
            raise InvalidRequestError(f"resource type {resource.resource_type} has no settings")
        return values if keys is None else [value for value in values if value.key in wanted]

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
            elif self._topic_defaults.get(key, setting.default) != setting.default:
                value, source = self._topic_defaults[key], "broker"
            else:
                value, source = setting.default, "default"
            values.append(ConfigValue(key, value, source, False, setting.documentation))
        return values

    def _broker(self, context: RequestContext, name: str) -> list[ConfigValue]:
        if not self._authorizer.authorize(context, DESCRIBE_CONFIGS, CLUSTER, CLUSTER_NAME):
            raise ClusterAuthorizationFailedError
        if name != str(self._broker_id):
            raise InvalidRequestError(f"ask broker {name[:32]} itself; this is {self._broker_id}")
        return [
            ConfigValue(key, value, "default" if is_default else "broker", True, "")
            for key, (value, is_default) in sorted(self._broker_settings.items())
        ]

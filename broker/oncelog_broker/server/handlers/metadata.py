"""Metadata, v0, tells brokers, topics and leaders, by the addresses of the asking listener.

* ``topics`` None: every topic, in order of name; an empty list: brokers only.
* A partition without a live leader: LEADER_NOT_AVAILABLE, with what else is known of it.
* An unknown topic: UNKNOWN_TOPIC_OR_PARTITION; a name that cannot be one: INVALID_TOPIC. With
  ``allow_auto_topic_creation``, and where the broker allows it, the controller is asked to create
  it and the answer is LEADER_NOT_AVAILABLE until it is there. That needs CREATE on the topic or on
  the cluster.
* A topic that the principal may not describe looks as if it did not exist. It is not created then,
  since the answer would tell whether it was there.
* A broker without the asking listener is left out: nobody could reach it there.
"""

from __future__ import annotations

from oncelog_broker.server.authorizer import DESCRIBE, TOPIC, Authorizer
from oncelog_broker.server.metadata_image import MetadataImage, TopicImage
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_broker.server.topic_creation import TopicCreation
from oncelog_protocol.errors import (
    NO_ERROR,
    InvalidTopicError,
    LeaderNotAvailableError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.limits import is_legal_topic
from oncelog_protocol.messages.metadata import (
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
)
from oncelog_protocol.messages.replication import LeaderAndIsrPartition
from oncelog_protocol.types import INTERNAL_TOPICS


class MetadataHandler:
    """It answers from the image; topics are rendered once per version of it."""

    def __init__(
        self, image: MetadataImage, authorizer: Authorizer, creation: TopicCreation | None
    ) -> None:
        self._image = image
        self._authorizer = authorizer
        self._creation = creation
        self._rendered: dict[str, MetadataTopic] = {}
        self._rendered_version = -1

    def handle(
        self,
        context: RequestContext,
        request: MetadataRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Answer at once, whatever is known."""
        if self._rendered_version != self._image.version:
            self._rendered = {}
            self._rendered_version = self._image.version
        if request.topics is None:
            decision = self._authorizer.decision
            names = [
                name
                for name in sorted(self._image.topics)
                if decision(context, DESCRIBE, TOPIC, name).allowed
            ]
            topics = [self._known(self._image.topics[name]) for name in names]
        else:
            unique = dict.fromkeys(request.topics)
            create = request.allow_auto_topic_creation
            topics = [self._topic(context, name, create) for name in unique]
        respond(
            MetadataResponse(
                self._image.cluster_id,
                self._image.controller_id,
                self._brokers(context.listener),
                topics,
            )
        )

    def _brokers(self, listener: str) -> list[MetadataBroker]:
        found = []
        for broker in self._image.brokers.values():
            address = self._image.address(broker.broker_id, listener)
            if address is not None:
                found.append(
                    MetadataBroker(broker.broker_id, address.host, address.port, broker.rack)
                )
        return found

    def _may_see(self, context: RequestContext, topic: str) -> bool:
        """Return whether a topic is told of; to all others it is not there [S26]."""
        return self._authorizer.authorize(context, DESCRIBE, TOPIC, topic)

    def _topic(self, context: RequestContext, name: str, create: bool) -> MetadataTopic:
        if not is_legal_topic(name):
            return MetadataTopic(InvalidTopicError.code, name, "", False)
        known = self._image.topics.get(name)
        visible = self._may_see(context, name)
        if known is not None and visible:
            return self._known(known)
        code = UnknownTopicOrPartitionError.code
        wanted = create and visible and name not in INTERNAL_TOPICS
        if wanted and self._creation is not None and self._creation.request(context, name):
            code = LeaderNotAvailableError.code
        return MetadataTopic(code, name, "", name in INTERNAL_TOPICS)

    def _known(self, topic: TopicImage) -> MetadataTopic:
        rendered = self._rendered.get(topic.topic)
        if rendered is None:
            rendered = self._rendered[topic.topic] = MetadataTopic(
                NO_ERROR,
                topic.topic,
                topic.topic_id,
                topic.topic in INTERNAL_TOPICS,
                [self._partition(topic.partitions[p]) for p in sorted(topic.partitions)],
            )
        return rendered

    def _partition(self, state: LeaderAndIsrPartition) -> MetadataPartition:
        live = self._image.brokers
        has_leader = state.leader in live
        return MetadataPartition(
            NO_ERROR if has_leader else LeaderNotAvailableError.code,
            state.partition,
            state.leader if has_leader else -1,
            state.leader_epoch,
            state.replicas,
            state.isr,
            [b for b in state.replicas if b not in live],
            state.elr,
            state.last_known_elr,
        )

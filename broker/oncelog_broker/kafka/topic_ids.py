"""Ids of topics are text here and sixteen bytes at Kafka. Pure."""

from __future__ import annotations

from oncelog_broker.kafka.wire.declaration import NO_UUID
from oncelog_broker.server.metadata_image import MetadataImage

_HEX_DIGITS = 32


def id_bytes(topic_id: str) -> bytes:
    """Return the bytes of an id; zeros where it is not known."""
    digits = topic_id.replace("-", "")
    return bytes.fromhex(digits) if len(digits) == _HEX_DIGITS else NO_UUID


def topic_of(image: MetadataImage, topic_id: bytes) -> str | None:
    """Return the name of the topic that has this id, if there is one."""
    found = (name for name, topic in image.topics.items() if id_bytes(topic.topic_id) == topic_id)
    return next(found, None)

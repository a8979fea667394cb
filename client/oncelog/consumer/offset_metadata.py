"""A group remembers offsets with metadata; a member is known to others by its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from oncelog.errors import (
    ApiError,
    CommitFailedError,
    FencedInstanceIdError,
    IllegalGenerationError,
    UnknownMemberIdError,
)
from oncelog_protocol.types import NO_EPOCH, TopicPartition


class OffsetAndMetadata(NamedTuple):
    """A group commits an offset together with this metadata.

    ``offset`` is that of the record to be read next; ``leader_epoch`` that of the last record read
    (KIP-320), -1 when not known; ``metadata`` is a note of the application's; ``topic_id`` is the
    id of the topic, "" for the topic that has the name now.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = NO_EPOCH
    topic_id: str = ""


class GroupMetadata(NamedTuple):
    """A member's identity fences its commits. Generation -1 and no member id mean: not a member."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


Offsets = Mapping[TopicPartition, OffsetAndMetadata]
GivenOffsets = Mapping[TopicPartition, OffsetAndMetadata | int]
"""An application commits offsets with or without metadata."""

NOT_A_MEMBER = (IllegalGenerationError, UnknownMemberIdError, FencedInstanceIdError)
"""The coordinator refuses somebody as a member by these."""


def left_behind(who: GroupMetadata, error: ApiError) -> CommitFailedError:
    """Make the error of a commit that was refused because ``who`` is not a member any more."""
    return CommitFailedError(
        f"group {who.group_id!r}: {error.name}: the group went on without this member, which"
        f" was {who.member_id!r} in generation {who.generation_id}"
    )


def checked_offsets(offsets: GivenOffsets) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets to commit, with types; raise ValueError for one below 0."""
    checked: dict[TopicPartition, OffsetAndMetadata] = {}
    for tp, given in offsets.items():
        item = given if isinstance(given, OffsetAndMetadata) else OffsetAndMetadata(given)
        if type(item.offset) is not int or item.offset < 0:
            raise ValueError(f"{TopicPartition(*tp)}: offset={item.offset!r}: must be from 0 on")
        if not isinstance(item.metadata, str):
            raise ValueError(f"{TopicPartition(*tp)}: metadata={item.metadata!r:.80}: must be text")
        checked[TopicPartition(*tp)] = item
    return checked

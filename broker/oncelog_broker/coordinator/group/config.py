"""A group coordinator is told these settings. Names are Kafka's in snake case."""

from __future__ import annotations

from dataclasses import dataclass

from oncelog_protocol import limits

GROUP_METADATA_BYTES_MAX = limits.HEAD_BYTES_MAX // 2
"""All that the members of one group tell each other must fit the answer that its leader gets."""

PROTOCOL_COUNT_MAX = 32
"""One member may offer so many assignors."""


@dataclass(slots=True, kw_only=True)
class GroupConfig:
    """These settings hold for all groups of one broker, and are the same on every broker of a
    cluster. Those that may change while the broker runs change in place."""

    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    """An empty group waits so long for more members after the first; the wait is extended by as
    much for each that comes, up to the rebalance time-out."""
    group_max_size: int
    """One group may have so many members, those included that were only given an id so far."""
    group_metadata_bytes_max: int = GROUP_METADATA_BYTES_MAX
    """Names and offers of one group's members may have so many bytes, all protocols together; as
    many may be assigned."""
    group_new_member_join_timeout_ms: int = 300_000
    """A new member may be parked so long: it cannot give a sign of life meanwhile."""
    group_unsaved_max: int = 10_000
    """One shard may have so many groups that nobody has joined or committed to, and in which only
    an id was given out."""
    offsets_retention_ms: int
    """Offsets live this long after the group became empty, and after the last commit (KIP-211)."""
    offsets_retention_check_interval_ms: int
    offset_metadata_max_bytes: int

    def __post_init__(self) -> None:
        if not 0 < self.group_min_session_timeout_ms <= self.group_max_session_timeout_ms:
            raise ValueError("session time-outs: 0 < minimum <= maximum")
        if self.group_max_size < 1 or self.group_unsaved_max < 1:
            raise ValueError("a group has room for a member, and a shard for a group")
        if not 0 < self.group_metadata_bytes_max <= GROUP_METADATA_BYTES_MAX:
            raise ValueError(f"group_metadata_bytes_max: 1 to {GROUP_METADATA_BYTES_MAX}")
        if self.group_initial_rebalance_delay_ms < 0 or self.offset_metadata_max_bytes < 0:
            raise ValueError("delays and sizes are not negative")
        if self.group_new_member_join_timeout_ms < 1:
            raise ValueError("group_new_member_join_timeout_ms is above zero")
        if self.offsets_retention_ms < 1 or self.offsets_retention_check_interval_ms < 1:
            raise ValueError("retention and its check interval are above zero")

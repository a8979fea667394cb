"""Admin calls about consumer groups take and return typed values, one result an item.

Rules: what is not known is None, never 0 or -1; offsets are those of the record to be read next;
an item that failed does not hide the others (see ``admin_results``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from oncelog.admin.results import Found
from oncelog.errors import ApiError, ClientError, ConfigurationError
from oncelog_protocol.types import TopicPartition

GroupState = Literal["Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"]
GROUP_STATES: tuple[GroupState, ...] = get_args(GroupState)

Where = Literal["earliest", "latest", "current", "offset", "shift", "timestamp"]


class GroupHasMembersError(ClientError):
    """The call needs a group without members, and this one has some.

    ``members`` are their descriptions; the message names them, with client id and host.
    """

    def __init__(self, group_id: str, members: Sequence[MemberDescription]) -> None:
        named = ", ".join(f"{member} ({member.client_host})" for member in members[:5])
        more = f" and {len(members) - 5} more" if len(members) > 5 else ""
        who = f": {named}{more}" if members else ""
        super().__init__(
            f"group {group_id!r} has live members{who}; stop them first, or wait until their "
            "sessions have timed out"
        )
        self.group_id = group_id
        self.members = tuple(members)


@dataclass(frozen=True, slots=True)
class GroupListing:
    """One broker lists a group that it coordinates with these fields."""

    group_id: str
    state: str
    protocol_type: str
    member_count: int
    coordinator: int
    """This broker answered for the group."""


class GroupListings(Found[GroupListing]):
    """The groups are sorted by name; those of a broker in ``unanswered`` may be missing."""


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A group has this member: it subscribed to ``topics`` and was assigned ``partitions``.

    Both are empty for a group of another protocol type; then ``metadata`` and ``assignment`` hold
    its bytes.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()
    metadata: bytes = field(default=b"", repr=False)
    assignment: bytes = field(default=b"", repr=False)

    def __str__(self) -> str:
        return self.group_instance_id or self.member_id or self.client_id


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A group has committed this for one partition; ``commit_timestamp`` is in ms since 1970."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp: int = -1


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """A group has committed ``offset`` in a partition; its leader has told the rest about its log.

    ``log_start_offset``, ``end_offset`` (the last stable offset) and ``lag`` are None when the
    leader could not be asked. ``lag`` counts offsets, and so what compaction removed as well.
    """

    partition: TopicPartition
    committed: CommittedOffset
    log_start_offset: int | None
    end_offset: int | None
    lag: int | None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group has these members, and has committed offsets for these partitions."""

    group_id: str
    error: ApiError | None = None
    state: str = ""
    generation_id: int = -1
    protocol_type: str = ""
    protocol_name: str = ""
    """A group of consumers has an assignor of this name."""
    leader: str = ""
    """This member assigns."""
    coordinator: int | None = None
    members: tuple[MemberDescription, ...] = ()
    offsets: tuple[GroupOffset, ...] = ()

    @property
    def lag(self) -> int | None:
        """Return the sum of the partitions' lags; None when one is unknown, or there are none."""
        lags = [item.lag for item in self.offsets]
        if not lags or None in lags:
            return None
        return sum(lag for lag in lags if lag is not None)


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    """One group was deleted, or was not."""

    group_id: str
    error: ApiError | None = None


@dataclass(frozen=True, slots=True)
class OffsetOutcome:
    """The offset of one partition was set or deleted, or was not."""

    partition: TopicPartition
    error: ApiError | None = None


@dataclass(frozen=True, slots=True)
class MemberOutcome:
    """One member was taken out, or was not. Its id is empty if it was named by instance id."""

    member_id: str
    group_instance_id: str | None
    error: ApiError | None = None


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """An offset reset names the place from which a group is to read all partitions."""

    where: Where
    number: int = 0

    @classmethod
    def to_earliest(cls) -> OffsetReset:
        """Return the reset to the first record of each partition."""
        return cls("earliest")

    @classmethod
    def to_latest(cls) -> OffsetReset:
        """Return the reset behind the last record that each partition has now."""
        return cls("latest")

    @classmethod
    def to_current(cls) -> OffsetReset:
        """Return the reset to the committed offsets, or to the end where nothing is committed."""
        return cls("current")

    @classmethod
    def to_offset(cls, offset: int) -> OffsetReset:
        """Return the reset to ``offset``, the same in all partitions."""
        if type(offset) is not int or offset < 0:
            raise ConfigurationError(f"offset={offset!r}: must be an integer from 0 on")
        return cls("offset", offset)

    @classmethod
    def shift_by(cls, count: int) -> OffsetReset:
        """Return the reset by ``count`` offsets from where the group is; negative means back."""
        return cls("shift", count)

    @classmethod
    def to_timestamp(cls, timestamp_ms: int) -> OffsetReset:
        """Return the reset to the first record at or after a time, in ms since 1970, or the end."""
        if type(timestamp_ms) is not int or timestamp_ms < 0:
            raise ConfigurationError(f"timestamp_ms={timestamp_ms!r}: must be ms since 1970")
        return cls("timestamp", timestamp_ms)


@dataclass(frozen=True, slots=True)
class PlannedOffset:
    """A plan changes one partition's offset from ``current`` (None: not committed) to ``new``.

    ``new`` is None when that is impossible for this partition; then ``note`` says why. Otherwise
    ``note`` says how the requested offset was changed, as "below the log start, 7 instead".
    """

    partition: TopicPartition
    current: int | None
    new: int | None
    log_start_offset: int
    end_offset: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """A plan holds the rows that ``reset_group_offsets`` would write."""

    group_id: str
    rows: tuple[PlannedOffset, ...]

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """Return the new offset of each partition that can be reset."""
        return {row.partition: row.new for row in self.rows if row.new is not None}


def planned(
    partition: TopicPartition,
    current: int | None,
    wish: int | None,
    held: tuple[int, int],
    note: str = "",
) -> PlannedOffset:
    """Make the row that moves a partition to ``wish``, or to the nearer end of the log.

    The log holds offsets from ``held[0]`` to ``held[1]``. An offset outside is moved to the nearer
    end, as Kafka does it.
    """
    start, end = held
    new = wish
    if wish is not None and wish < start:
        new, note = start, f"{wish} is below the log start, {start} instead"
    elif wish is not None and wish > end:
        new, note = end, f"{wish} is beyond the end, {end} instead"
    return PlannedOffset(partition, current, new, start, end, note)

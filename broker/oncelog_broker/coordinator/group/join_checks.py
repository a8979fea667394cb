"""A JoinGroup is checked here for what it says and for room in its group. Pure."""

from __future__ import annotations

from oncelog_broker.coordinator.group.config import PROTOCOL_COUNT_MAX, GroupConfig
from oncelog_broker.coordinator.group.group import Group
from oncelog_broker.coordinator.group.members import Member, Offer
from oncelog_broker.coordinator.group.states import GroupState
from oncelog_protocol.errors import (
    GroupMaxSizeReachedError,
    InvalidGroupIdError,
    InvalidRequestError,
    InvalidSessionTimeoutError,
)
from oncelog_protocol.messages.groups import NO_MEMBER, JoinGroupRequest
from oncelog_runtime.entropy import Entropy

PREFIX_CHARS_MAX = 255
"""A member id takes so many characters of the client's or instance's name; it must stay a name
itself."""


def check_group_id(group_id: str) -> None:
    """Refuse an empty group id.

    :raises InvalidGroupIdError: it is empty.
    """
    if not group_id:
        raise InvalidGroupIdError


def check_join(request: JoinGroupRequest, config: GroupConfig) -> None:
    """Check the time-outs, the instance id and the protocols of a JoinGroup.

    :raises InvalidSessionTimeoutError, InvalidRequestError: a rule is broken.
    """
    low, high = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
    if not low <= request.session_timeout_ms <= high:
        raise InvalidSessionTimeoutError(
            f"session_timeout_ms {request.session_timeout_ms} is not within {low} and {high}"
        )
    if request.rebalance_timeout_ms < 1:
        raise InvalidRequestError(f"rebalance_timeout_ms {request.rebalance_timeout_ms}")
    if request.group_instance_id == "":
        raise InvalidRequestError("an instance id is not empty")
    names = [protocol.name for protocol in request.protocols]
    if len(names) > PROTOCOL_COUNT_MAX:
        raise InvalidRequestError(f"{len(names)} protocols, at most {PROTOCOL_COUNT_MAX}")
    if len(set(names)) != len(names) or "" in names:
        raise InvalidRequestError("protocols have names, and each another one")


def offer_of(request: JoinGroupRequest) -> Offer:
    """Return what the member offers."""
    return Offer(
        request.session_timeout_ms,
        request.rebalance_timeout_ms,
        tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
    )


def check_room(
    group: Group,
    request: JoinGroupRequest,
    offer: Offer,
    member: Member | None,
    config: GroupConfig,
) -> None:
    """Check that the group has room for the member. ``member`` is the one that joins again or is
    replaced, None for a new one.

    While a round gathers, only members that have joined it count: newcomers may take the place of
    members that are dead and not known to be yet, as in Kafka.

    :raises GroupMaxSizeReachedError: too many members, or they have too much to say.
    """
    room = config.group_max_size
    before = 0 if member is None else member.offer.metadata_bytes
    grown = group.metadata_bytes - before + offer.metadata_bytes
    if grown > config.group_metadata_bytes_max:
        raise GroupMaxSizeReachedError(
            f"the members of a group may offer {config.group_metadata_bytes_max} bytes"
        )
    if member is not None and (request.member_id == NO_MEMBER or member.joining is not None):
        return
    # An id that was handed out has its place among the pending ones.
    pending = len(group.pending) - (request.member_id in group.pending)
    if group.state is GroupState.PREPARING_REBALANCE:
        taken = group.joining_count
        if member is None:
            taken += pending
    elif member is not None:
        return
    else:
        taken = len(group.members) + pending
    if taken >= room:
        raise GroupMaxSizeReachedError(f"a group has at most {room} members")


def make_member_id(client_id: str, instance_id: str | None, entropy: Entropy) -> str:
    """Return an id that nobody had before; it begins with the name by which people know the
    member."""
    name = client_id if instance_id is None else instance_id
    return f"{name[:PREFIX_CHARS_MAX]}-{entropy.uuid()}"

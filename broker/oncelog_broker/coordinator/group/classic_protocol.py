"""The classic group protocol is carried out here: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

It follows Kafka's ``GroupMetadataManager``, with KIP-345 (static members), KIP-394 (ids are handed
out before a member counts), KIP-814 (a static leader that comes back assigns nothing anew). Answers
that depend on the state alone are in ``states.RULES``; what happens in between is in ``rounds``.

It is more exact than Kafka in four points. A static member that comes back with another
subscription makes the group rebalance. A caller that asks twice has its first call answered. A
pending id that leaves makes nobody rebalance. A member's own old protocols do not speak against its
new ones.
"""

from __future__ import annotations

from typing import TypeVar

from oncelog_broker.coordinator.group.config import GroupConfig
from oncelog_broker.coordinator.group.group import Group
from oncelog_broker.coordinator.group.join_checks import (
    check_join,
    check_room,
    make_member_id,
    offer_of,
)
from oncelog_broker.coordinator.group.members import (
    Caller,
    Member,
    Offer,
    owes_partitions,
    wants_the_same,
)
from oncelog_broker.coordinator.group.records import SavedGroup
from oncelog_broker.coordinator.group.rounds import Rounds
from oncelog_broker.coordinator.group.states import RULES, GroupState, Rejoin
from oncelog_broker.coordinator.result import Result
from oncelog_protocol.errors import (
    NO_ERROR,
    ApiError,
    CoordinatorNotAvailableError,
    FencedInstanceIdError,
    GroupMaxSizeReachedError,
    InconsistentGroupProtocolError,
    InvalidRequestError,
    MemberIdRequiredError,
    RebalanceInProgressError,
    RequestTimedOutError,
    UnknownMemberIdError,
    error_for,
)
from oncelog_protocol.messages.groups import (
    NO_MEMBER,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    LeavingMemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from oncelog_runtime.clock import WallClock
from oncelog_runtime.entropy import Entropy
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

T = TypeVar("T")

_STABLE = GroupState.STABLE
_PREPARING = GroupState.PREPARING_REBALANCE
_COMPLETING = GroupState.COMPLETING_REBALANCE
_EMPTY = GroupState.EMPTY


class ClassicProtocol:
    """It carries out requests of members, over the groups of one shard."""

    def __init__(
        self, rounds: Rounds, *, config: GroupConfig, clock: WallClock, entropy: Entropy
    ) -> None:
        self._rounds = rounds
        self._config = config
        self._clock = clock
        self._entropy = entropy

    # ---- JoinGroup

    def join(
        self,
        group: Group,
        client_id: str,
        client_host: str,
        request: JoinGroupRequest,
        caller: Caller[JoinGroupResponse],
    ) -> Result[JoinGroupResponse]:
        """Answer, or park ``caller``.

        :raises ApiError: those of ``JoinGroupResponse``; nothing has changed.
        """
        check_join(request, self._config)
        offer = offer_of(request)
        member = self._known(group, request)
        names = [name for name, _ in offer.protocols]
        if not group.supports(request.protocol_type, names, member):
            raise InconsistentGroupProtocolError
        if not group.understands(offer, member):
            raise InconsistentGroupProtocolError("its members are clients of another protocol")
        try:
            check_room(group, request, offer, member, self._config)
        except GroupMaxSizeReachedError:
            if member is None or request.member_id == NO_MEMBER:
                raise
            # The group has become too large while this member was away from the round.
            outcome = self._rounds.remove_and_go_on(group, member, "there is no room for it")
            return _with_reply(outcome, JoinGroupResponse(GroupMaxSizeReachedError.code))
        if member is not None and request.member_id == NO_MEMBER:
            return self._replace_static(group, member, client_id, client_host, request, caller)
        if member is not None:
            return self._rejoin(group, member, offer, request, caller)
        member_id = request.member_id
        if member_id == NO_MEMBER:
            member_id = make_member_id(client_id, request.group_instance_id, self._entropy)
            if request.group_instance_id is None:
                group.pending[member_id] = None
                self._rounds.watch_pending(group, member_id, offer.session_timeout_ms)
                return Result(
                    reply=JoinGroupResponse(MemberIdRequiredError.code, member_id=member_id)
                )
        instance_id = request.group_instance_id
        member = Member(member_id, instance_id, client_id, client_host, offer, is_new=True)
        group.admit(member, request.protocol_type)
        group.park_join(member, caller)
        self._rounds.watch(group, member, self._config.group_new_member_join_timeout_ms)
        reason = f"{member_id} joins: {_reason(request.reason)}"
        return _parked(self._rounds.rebalance(group, reason))

    @staticmethod
    def _known(group: Group, request: JoinGroupRequest) -> Member | None:
        """Return the member that joins again, or whose instance id is taken over; None for a new
        one."""
        if request.member_id == NO_MEMBER:
            owner = group.static.get(request.group_instance_id or "")
            return None if owner is None else group.members[owner]
        if request.member_id in group.pending:
            if request.group_instance_id is not None:
                raise InvalidRequestError("an id that was handed out is of no static member")
            return None
        return group.check_member(request.member_id, request.group_instance_id)

    def _rejoin(
        self,
        group: Group,
        member: Member,
        offer: Offer,
        request: JoinGroupRequest,
        caller: Caller[JoinGroupResponse],
    ) -> Result[JoinGroupResponse]:
        rule = RULES[group.state].rejoin
        if rule is Rejoin.REFUSE:
            raise UnknownMemberIdError
        leads = group.leader == member.member_id
        repeats = rule is Rejoin.REPEAT_IF_SAME or (
            rule is Rejoin.REPEAT_FOLLOWERS_IF_SAME and not leads
        )
        if repeats and member.offer.protocols == offer.protocols:
            self._rounds.watch(group, member)
            return Result(reply=group.joined(member))
        group.set_offer(member, offer)
        self._take_part(group, member, caller)
        reason = f"{member.member_id} joins: {_reason(request.reason)}"
        return _parked(self._rounds.rebalance(group, reason))

    @staticmethod
    def _take_part(group: Group, member: Member, caller: Caller[JoinGroupResponse]) -> None:
        earlier = group.take_join(member)
        group.park_join(member, caller)
        if earlier is not None:
            earlier.answer(JoinGroupResponse(RebalanceInProgressError.code))

    def _replace_static(
        self,
        group: Group,
        member: Member,
        client_id: str,
        client_host: str,
        request: JoinGroupRequest,
        caller: Caller[JoinGroupResponse],
    ) -> Result[JoinGroupResponse]:
        """Take back a static member after a restart, and fence its earlier life."""
        before = (member.member_id, member.client_id, member.client_host)
        earlier = member.offer
        self._fence(group, member)
        new_id = make_member_id(client_id, request.group_instance_id, self._entropy)
        self._rounds.stop_watching(group, member.member_id)
        group.rename(member, new_id, client_id, client_host)
        group.set_offer(member, offer_of(request))
        group.park_join(member, caller)
        self._rounds.watch(group, member)
        logger.info("group_member_replaced", group=group.group_id, member=new_id, before=before[0])
        if group.state is not _STABLE:
            return _parked(self._rounds.rebalance(group, f"{new_id} takes over an instance id"))
        saved = group.saved
        if saved is None or not _goes_on(group, member, earlier):
            reason = f"{new_id} takes over, and the generation does not fit it"
            return _parked(self._rounds.rebalance(group, reason))
        generation = group.generation
        record = group.to_save({m.member_id: m.assignment for m in group.members.values()})

        def is_current() -> bool:
            waits = member.joining is caller and member.member_id == new_id
            return waits and group.state is _STABLE and group.generation == generation

        # If a rebalance begins meanwhile, the caller becomes part of it.
        def committed() -> None:
            if is_current():
                group.take_join(member)
                self._rounds.watch(group, member)
                caller.answer(group.joined(member, skip_assignment=True))

        def failed(code: int) -> None:
            if not is_current():
                return
            group.take_join(member)
            caller.answer(JoinGroupResponse(_as_retriable(code)))
            if group.saved is saved:
                # Nothing was written: the earlier life goes on.
                self._rounds.stop_watching(group, new_id)
                group.rename(member, *before)
                group.set_offer(member, earlier)
            self._rounds.watch(group, member)

        return Result(self._rounds.to_save(group, record), None, committed, failed)

    @staticmethod
    def _fence(group: Group, member: Member) -> None:
        """Tell the earlier life of a static member, where it waits, that it is over."""
        code = FencedInstanceIdError.code
        joining, syncing = group.take_join(member), member.take_sync()
        if joining is not None:
            joining.answer(JoinGroupResponse(code, member_id=member.member_id))
        if syncing is not None:
            syncing.answer(SyncGroupResponse(code))

    # ---- SyncGroup

    def sync(
        self, group: Group, request: SyncGroupRequest, caller: Caller[SyncGroupResponse]
    ) -> Result[SyncGroupResponse]:
        """Answer, or park ``caller`` until the leader's assignments are durable.

        :raises ApiError: those of ``SyncGroupResponse``; nothing has changed.
        """
        member = group.check_member(request.member_id, request.group_instance_id)
        group.check_generation(request.generation_id)
        if request.protocol_type not in (None, group.protocol_type) or (
            request.protocol_name not in (None, group.protocol_name)
        ):
            raise InconsistentGroupProtocolError
        _refuse(RULES[group.state].sync)
        leads = member.member_id == group.leader and group.state is _COMPLETING
        if leads:
            size = sum(len(given.assignment) for given in request.assignments)
            if size > self._config.group_metadata_bytes_max:
                raise InvalidRequestError(f"{size} bytes of assignments")
        group.pending_sync.pop(member.member_id, None)
        if group.state is _STABLE:
            self._rounds.watch(group, member)
            self._rounds.stop_waiting_for_syncs(group)
            return Result(reply=self._synced(group, member))
        earlier = member.wait_in_sync(caller)
        if earlier is not None:
            earlier.answer(SyncGroupResponse(RebalanceInProgressError.code))
        # A leader that asks again changes nothing in what is being written down.
        if leads and group.assigning != group.generation:
            return self._save_assignments(group, request)
        return Result()

    def _save_assignments(
        self, group: Group, request: SyncGroupRequest
    ) -> Result[SyncGroupResponse]:
        given = {each.member_id: each.assignment for each in request.assignments}
        without = sum(member_id not in given for member_id in group.members)
        if without:
            logger.info("group_leader_gave_nothing", group=group.group_id, members=without)
        generation = group.begin_assigning()
        saved = group.to_save(given)

        def is_current() -> bool:
            return group.state is _COMPLETING and group.generation == generation

        def committed() -> None:
            if is_current():
                self._assign(group, saved)

        def failed(code: int) -> None:
            if is_current():
                self._rounds.refuse_syncs(group, _as_retriable(code))
                self._rounds.begin_soon(group, f"assignments were not saved, error {code}")

        return Result(self._rounds.to_save(group, saved), None, committed, failed)

    def _assign(self, group: Group, saved: SavedGroup) -> None:
        """Give the assignments, which are durable now, to their members."""
        group.assigned(saved, self._clock.now_ms())
        answers = []
        for member in group.members.values():
            caller = member.take_sync()
            if caller is not None:
                self._rounds.watch(group, member)
                answers.append((caller, self._synced(group, member)))
        self._rounds.stop_waiting_for_syncs(group)
        if not self._rounds.check(group):
            for caller, _ in answers:
                caller.answer(SyncGroupResponse(CoordinatorNotAvailableError.code))
            return
        for caller, answer in answers:
            caller.answer(answer)

    @staticmethod
    def _synced(group: Group, member: Member) -> SyncGroupResponse:
        return SyncGroupResponse(
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            assignment=member.assignment,
        )

    # ---- Heartbeat, LeaveGroup

    def heartbeat(self, group: Group, request: HeartbeatRequest) -> HeartbeatResponse:
        """Answer a heartbeat, which is also a sign of life.

        :raises ApiError: those of ``HeartbeatResponse``.
        """
        member = group.check_member(request.member_id, request.group_instance_id)
        group.check_generation(request.generation_id)
        self.sign_of_life(group, member)
        _refuse(RULES[group.state].heartbeat)
        return HeartbeatResponse()

    def sign_of_life(self, group: Group, member: Member) -> None:
        """Begin the session anew, unless the member is parked."""
        if not member.is_waiting:
            self._rounds.watch(group, member)

    def leave(self, group: Group, request: LeaveGroupRequest) -> Result[LeaveGroupResponse]:
        """Answer for each member once it is durable that it has left; the rest rebalances at once.
        If that cannot be written now, the caller is told, and the members have left for all that: a
        repeated call finds them unknown."""
        answers = []
        left: list[str] = []
        for leaving in request.members:
            answer = LeavingMemberResponse(leaving.member_id, leaving.group_instance_id)
            answers.append(answer)
            try:
                member_id = self._leave(group, leaving)
            except ApiError as error:
                answer.error_code = error.code
            else:
                left += member_id
        outcome: Result[None] = Result()
        if left:
            outcome = self._rounds.members_left(
                group, f"{', '.join(left[:5])} left, {len(left)} in all"
            )
        elif request.members:
            outcome = self._rounds.pending_left(group)
        return _with_reply(outcome, LeaveGroupResponse(members=answers))

    def _leave(self, group: Group, leaving: LeavingMember) -> list[str]:
        """Return who has left; it is nobody if it was a pending id."""
        member_id = leaving.member_id
        if member_id == NO_MEMBER:
            # By its instance id alone: an operator who knows that it will not come back.
            owner = group.static.get(leaving.group_instance_id or "")
            if owner is None:
                raise UnknownMemberIdError
            member_id = owner
        elif member_id in group.pending:
            del group.pending[member_id]
            self._rounds.stop_watching(group, member_id)
            return []
        member = group.check_member(member_id, leaving.group_instance_id)
        logger.info(
            "group_member_left",
            group=group.group_id,
            member=member_id,
            reason=_reason(leaving.reason),
        )
        self._rounds.remove(group, member)
        return [member_id]


def _goes_on(group: Group, member: Member, earlier: Offer) -> bool:
    """Return whether the generation fits a static member that is back as it fitted its earlier
    life."""
    chosen = group.protocol_name
    before = earlier.metadata(chosen)
    return (
        group.choose_protocol() == chosen
        and wants_the_same(before, member.offer.metadata(chosen))
        # Else its earlier life was to give something up and to join again: nobody has it now.
        and not owes_partitions(before, member.assignment)
    )


def _with_reply(outcome: Result[None], reply: T) -> Result[T]:
    return Result(outcome.records, reply, outcome.on_committed, outcome.on_failure)


def _parked(outcome: Result[None]) -> Result[T]:
    """Return the result of a request whose caller is parked, and is answered later."""
    return Result(outcome.records, None, outcome.on_committed, outcome.on_failure)


def _refuse(code: int) -> None:
    if code != NO_ERROR:
        raise error_for(code)


def _as_retriable(code: int) -> int:
    """Return the code that joins and syncs are told: a time-out becomes retriable, since nothing is
    lost by doing them again, whether they happened or not."""
    return CoordinatorNotAvailableError.code if code == RequestTimedOutError.code else code


def _reason(reason: str | None) -> str:
    """Return the reason that a client gave (KIP-800), shortened for the log."""
    return f"{reason or 'no reason given'!s:.255}"

"""Rounds of the group protocol begin and end here, and so do the sessions of members.

A round begins when a member joins or leaves, dies or asks for it. The group goes to
PreparingRebalance. All others hear of it by their heartbeats and join again. When all have, or the
rebalance time-out is over, whoever joined is the next generation (dynamic members who did not are
out, static ones stay until their session ends). In CompletingRebalance the leader hands in the
assignments, which are written down. Then everybody's SyncGroup is answered, and the group is
Stable.

A member of the saved generation that goes meanwhile is written down at once, so that the next
coordinator does not wait for it [N103]. What is not written, as the log takes nothing at the
moment, is written again and again until the next generation is.

It follows Kafka's ``GroupMetadataManager``. It is more exact in one point: a static member that is
away neither gets its session extended by a round, nor is it thrown out for not asking for an
assignment.
"""

from __future__ import annotations

from collections.abc import Callable

from oncelog_broker.coordinator.group.config import GroupConfig
from oncelog_broker.coordinator.group.group import Group
from oncelog_broker.coordinator.group.invariants import GroupInvariantError, check_group
from oncelog_broker.coordinator.group.members import Member
from oncelog_broker.coordinator.group.records import SavedGroup, group_record
from oncelog_broker.coordinator.group.states import GroupState
from oncelog_broker.coordinator.group.timer_keys import (
    again_key,
    join_key,
    session_key,
    sync_key,
)
from oncelog_broker.coordinator.ports import Timers
from oncelog_broker.coordinator.result import CoordinatorRecord, Result
from oncelog_broker.coordinator.safeguards import CoordinatorSafeguards
from oncelog_protocol.errors import (
    CoordinatorNotAvailableError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from oncelog_protocol.messages.groups import JoinGroupResponse, SyncGroupResponse
from oncelog_runtime.clock import WallClock
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

SAVE_AGAIN_MS = 1_000
"""The record of an empty group, or of who has gone, that was refused is written again after this
pause."""

DEPARTED_BYTES_MAX = 64 * 1024
"""So many bytes of departures, or of their tombstones, are written with one batch; the rest
follows."""

_STABLE = GroupState.STABLE
_PREPARING = GroupState.PREPARING_REBALANCE
_COMPLETING = GroupState.COMPLETING_REBALANCE
_EMPTY = GroupState.EMPTY


class Rounds:
    """It runs the rounds and sessions of the groups of one shard.

    All methods that return a result may have nothing to write; none of them answers the request
    that it serves. ``on_change`` is called with a group that may have become nothing, ``on_broken``
    with one whose invariants do not hold.
    """

    def __init__(
        self,
        *,
        timers: Timers,
        config: GroupConfig,
        clock: WallClock,
        safeguards: CoordinatorSafeguards,
        on_change: Callable[[Group], None],
        on_broken: Callable[[Group, GroupInvariantError], None],
    ) -> None:
        self._timers = timers
        self._config = config
        self._clock = clock
        self._safeguards = safeguards
        self._on_change = on_change
        self._on_broken = on_broken

    def check(self, group: Group) -> bool:
        """Return whether the group's invariants hold. If not, whoever waits in it has been
        answered, and it goes on from what is durable."""
        try:
            check_group(group)
        except GroupInvariantError as error:
            self._on_broken(group, error)
            return False
        return True

    # ---- rounds

    def rebalance(self, group: Group, reason: str) -> Result[None]:
        """Begin a round, or go on with the one that is under way."""
        if group.state is not _PREPARING:
            return self.begin(group, reason)
        return self.maybe_complete(group)

    def begin(self, group: Group, reason: str) -> Result[None]:
        """Begin a round, in which all members must join again."""
        logger.info(
            "group_rebalance",
            group=group.group_id,
            generation=group.generation,
            state=group.state.value,
            reason=reason,
        )
        if group.state is _COMPLETING:
            self.refuse_syncs(group, RebalanceInProgressError.code)
        self._cancel(group, sync_key(group.group_id))
        group.begin_round(self._clock.now_ms())
        if not group.is_initial:
            return self._complete_or_wait(group)
        delay_ms = self._config.group_initial_rebalance_delay_ms
        self._wait_for_more(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        self.check(group)
        return Result()

    def _wait_for_more(self, group: Group, delay_ms: int, remaining_ms: int) -> None:
        self._set(
            group,
            join_key(group.group_id),
            delay_ms,
            lambda: self._initial_delay_over(group, delay_ms, remaining_ms),
        )

    def _initial_delay_over(self, group: Group, delay_ms: int, remaining_ms: int) -> Result[None]:
        if group.state is not _PREPARING:
            return Result()
        if not (group.has_new_member and remaining_ms):
            return self._time_is_over(group)
        group.wait_for_more()
        next_ms = min(self._config.group_initial_rebalance_delay_ms, remaining_ms)
        self._wait_for_more(group, next_ms, max(remaining_ms - delay_ms, 0))
        return Result()

    def maybe_complete(self, group: Group) -> Result[None]:
        """Complete the round if nobody is missing any more."""
        if group.state is _PREPARING and not group.is_initial and group.has_all_joined:
            return self._complete(group)
        return Result()

    def _complete_or_wait(self, group: Group) -> Result[None]:
        if group.has_all_joined:
            return self._complete(group)
        self._wait_for_joins(group)
        self.check(group)
        return Result()

    def _wait_for_joins(self, group: Group) -> None:
        timeout_ms = group.rebalance_timeout_ms
        self._set(group, join_key(group.group_id), timeout_ms, lambda: self._time_is_over(group))

    def _time_is_over(self, group: Group) -> Result[None]:
        return self._with_departures(group, self._complete(group))

    def _complete(self, group: Group) -> Result[None]:
        """Complete the round: all have joined, or the others have had their time."""
        if group.state is not _PREPARING:
            return Result()
        self._cancel(group, join_key(group.group_id))
        for member in [m for m in group.members.values() if m.joining is None]:
            if not member.is_static:
                logger.info(
                    "group_member_did_not_join", group=group.group_id, member=member.member_id
                )
                self.remove(group, member)
        if group.members and not group.elect_joined_leader():
            # Static members, all away: their sessions decide.
            self._wait_for_joins(group)
            self.check(group)
            return Result()
        group.next_generation(self._clock.now_ms())
        if group.state is _EMPTY:
            return self._save_empty(group)
        logger.info(
            "group_generation_began",
            group=group.group_id,
            generation=group.generation,
            members=len(group.members),
            protocol=group.protocol_name,
            leader=group.leader,
        )
        answers = []
        for member in group.members.values():
            caller = group.enter_generation(member)
            if caller is not None:
                self.watch(group, member)
                answers.append((caller, group.joined(member)))
        self._wait_for_syncs(group)
        if not self.check(group):
            for caller, _ in answers:
                caller.answer(JoinGroupResponse(CoordinatorNotAvailableError.code))
            return Result()
        for caller, answer in answers:
            caller.answer(answer)
        return Result()

    def _save_empty(self, group: Group) -> Result[None]:
        logger.info("group_empty", group=group.group_id, generation=group.generation)
        if not self.check(group):
            return Result()

        def failed(code: int) -> None:
            # A new coordinator would take the members of old for alive, until their sessions end.
            self._save_again(group, SAVE_AGAIN_MS)

        return Result(self.to_save(group, group.to_save({})), None, None, failed)

    def to_save(self, group: Group, saved: SavedGroup) -> list[CoordinatorRecord]:
        """Return the records of a generation: its own, and tombstones of who has gone from former
        ones."""
        taken_back = group.departures.to_take_back(DEPARTED_BYTES_MAX)
        return [group_record(group.group_id, saved), *taken_back]

    # ---- departures

    def _with_departures(self, group: Group, outcome: Result[None]) -> Result[None]:
        """Write down who has gone, unless a new generation is written in any case."""
        return outcome if outcome.records else self._save_departures(group)

    def _save_departures(self, group: Group) -> Result[None]:
        records = self._safeguards.departures(group.departures.to_write(DEPARTED_BYTES_MAX))
        if not records or group.state is GroupState.DEAD:
            return Result()

        def more() -> None:
            if group.departures.has_unsaved:
                self._save_again(group, 0)

        def failed(code: int) -> None:
            # The members have left for all that, and an answer that says so would be forgotten.
            self._save_again(group, SAVE_AGAIN_MS)

        return Result(records, None, more, failed)

    def _save_again(self, group: Group, pause_ms: int) -> None:
        def again() -> Result[None]:
            return (
                self._save_empty(group) if group.state is _EMPTY else self._save_departures(group)
            )

        self._set(group, again_key(group.group_id), pause_ms, again)

    # ---- who has not done its part

    def refuse_syncs(self, group: Group, code: int) -> None:
        """Refuse the SyncGroups of a generation in which nothing is assigned."""
        for member in group.members.values():
            member.assign(b"")
            caller = member.take_sync()
            if caller is not None:
                self.watch(group, member)
                caller.answer(SyncGroupResponse(code))

    def _wait_for_syncs(self, group: Group) -> None:
        generation, timeout_ms = group.generation, group.rebalance_timeout_ms
        self._set(
            group,
            sync_key(group.group_id),
            timeout_ms,
            lambda: self._syncs_overdue(group, generation),
        )

    def stop_waiting_for_syncs(self, group: Group) -> None:
        """Stop the timer if everybody has its assignment."""
        if group.state is _STABLE and not group.pending_sync:
            self._cancel(group, sync_key(group.group_id))

    def _syncs_overdue(self, group: Group, generation: int) -> Result[None]:
        """Remove the members that have not asked for their assignment by now: they do not work
        (KAFKA-12890)."""
        if group.generation != generation or group.state not in (_COMPLETING, _STABLE):
            return Result()
        if not group.pending_sync:
            # All have asked, and their assignments are being written down.
            if group.state is _COMPLETING:
                self._wait_for_syncs(group)
            return Result()
        overdue = [group.members[member_id] for member_id in group.pending_sync]
        for member in overdue:
            self.remove(group, member)
        reason = f"{len(overdue)} members did not ask for assignments"
        return self._with_departures(group, self.begin(group, reason))

    def members_left(self, group: Group, reason: str) -> Result[None]:
        """Go on without members that have left: the others share what these had, or need not wait
        for them any more. The result is committed when the next coordinator would know too."""
        if group.state in (_STABLE, _COMPLETING):
            outcome = self.begin(group, reason)
        else:
            outcome = self.maybe_complete(group)
        return self._with_departures(group, outcome)

    def pending_left(self, group: Group) -> Result[None]:
        """Go on without an id that was handed out and is not waited for any more."""
        outcome = self.maybe_complete(group)
        if not outcome.records:
            self._on_change(group)
        return outcome

    def remove_and_go_on(self, group: Group, member: Member, reason: str) -> Result[None]:
        """Remove a member, and go on without it."""
        self.remove(group, member)
        return self.members_left(group, f"{member.member_id}: {reason}")

    def remove(self, group: Group, member: Member) -> None:
        """Remove a member; whoever waits for it is told to start over."""
        code = UnknownMemberIdError.code
        joining, syncing = group.take_join(member), member.take_sync()
        group.remove(member)
        self.stop_watching(group, member.member_id)
        if joining is not None:
            joining.answer(JoinGroupResponse(code))
        if syncing is not None:
            syncing.answer(SyncGroupResponse(code))

    # ---- sessions

    def watch(self, group: Group, member: Member, timeout_ms: int | None = None) -> None:
        """Give the member so long, its session time-out by default, for its next sign of life."""
        member_id = member.member_id
        self._set(
            group,
            session_key(group.group_id, member_id),
            member.offer.session_timeout_ms if timeout_ms is None else timeout_ms,
            lambda: self._session_over(group, member_id),
        )

    def watch_pending(self, group: Group, member_id: str, timeout_ms: int) -> None:
        """An id that was handed out must join within the session time-out that it asked for."""
        key = session_key(group.group_id, member_id)
        self._set(group, key, timeout_ms, lambda: self._session_over(group, member_id))

    def stop_watching(self, group: Group, member_id: str) -> None:
        """Forget the session of an id that means nothing any more."""
        self._cancel(group, session_key(group.group_id, member_id))

    def _session_over(self, group: Group, member_id: str) -> Result[None]:
        if member_id in group.pending:
            del group.pending[member_id]
            return self.pending_left(group)
        member = group.members.get(member_id)
        # A parked member shows no sign of life and need not; the round ends that. A new member is
        # parked for so long only: nobody could tell whether it is still there.
        if member is None or (member.is_waiting and not member.is_new):
            return Result()
        return self.remove_and_go_on(group, member, "no sign of life")

    # ---- load, unload, timers

    def loaded(self, group: Group) -> None:
        """Give members that a coordinator has read a whole session to show that they live."""
        gone = group.restore(self._clock.now_ms())
        for member in group.members.values():
            self.watch(group, member)
        if gone and not group.members:
            self._save_again(group, 0)
        elif gone:
            self.begin_soon(group, f"{gone} members had gone when the group was loaded")
        elif len(group.members) > self._config.group_max_size:
            self.begin_soon(group, f"{len(group.members)} members were loaded")

    def begin_soon(self, group: Group, reason: str) -> None:
        """Begin a round as an operation of its own, unless another begins before."""
        state, generation = group.state, group.generation

        def begin() -> Result[None]:
            is_same = group.state is state and group.generation == generation
            return self.begin(group, reason) if is_same else Result()

        self._timers.soon(begin)

    def end(self, group: Group, error_code: int) -> None:
        """End a group that is deleted, or not coordinated here any more, and tell whoever waits."""
        for key in list(group.timers):
            self._cancel(group, key)
        group.move_to(GroupState.DEAD, self._clock.now_ms())
        for member in group.members.values():
            joining, syncing = group.take_join(member), member.take_sync()
            if joining is not None:
                joining.answer(JoinGroupResponse(error_code, member_id=member.member_id))
            if syncing is not None:
                syncing.answer(SyncGroupResponse(error_code))

    def _set(
        self,
        group: Group,
        key: str,
        delay_ms: int,
        operation: Callable[[], Result[None]],
    ) -> None:
        if group.state is GroupState.DEAD:
            return

        def due() -> Result[None]:
            group.timers.pop(key, None)
            return Result() if group.state is GroupState.DEAD else operation()

        group.timers[key] = None
        self._timers.set(key, delay_ms / 1000, due)

    def _cancel(self, group: Group, key: str) -> None:
        if key in group.timers:
            del group.timers[key]
            self._timers.cancel(key)

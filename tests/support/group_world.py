"""One shard of groups in a world of its own: time, log and commits move when the test says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from oncelog_broker.coordinator.group.config import GroupConfig
from oncelog_broker.coordinator.group.group import Group
from oncelog_broker.coordinator.group.invariants import check_group
from oncelog_broker.coordinator.group.records import SavedGroup
from oncelog_broker.coordinator.group.service import GroupCoordinator
from oncelog_broker.coordinator.group.shard import GroupShard
from oncelog_broker.coordinator.result import BARRIER, CoordinatorRecord, Result
from oncelog_broker.coordinator.safeguards import SAFE, CoordinatorSafeguards
from oncelog_protocol.consumer_protocol import ConsumerSubscription, encode_subscription
from oncelog_protocol.errors import ApiError, RequestTimedOutError
from oncelog_protocol.messages.groups import (
    GroupProtocol,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeavingMember,
    MemberAssignment,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitTopic,
    OffsetFetchRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from oncelog_runtime.entropy import SeededEntropy
from support.clock import ManualClock
from support.room_settings import group_settings

__all__ = ["Answer", "GroupWorld", "ManualTimers", "Player", "durable", "subscribed"]

T = TypeVar("T")

Operation = Callable[[], Result[Any]]
Reply = Callable[[Any, int], None]


def subscribed(*topics: str) -> bytes:
    """Return what a consumer of these topics says in JoinGroup."""
    return encode_subscription(ConsumerSubscription(topics))


class ManualTimers:
    """These ``Timers`` have a clock that the test moves."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._sequence = 0
        self.due: dict[str, tuple[float, int, Callable[[], Result[Any]]]] = {}
        self.retries: dict[str, float | None] = {}
        """How long after a failure each runs again."""
        self.closed = False

    def set(
        self,
        key: str,
        delay_s: float,
        operation: Callable[[], Result[Any]],
        *,
        retry_s: float | None = None,
    ) -> None:
        if not self.closed:
            self._sequence += 1
            self.due[key] = (self._now_s() + delay_s, self._sequence, operation)
            self.retries[key] = retry_s

    def soon(self, operation: Callable[[], Result[Any]], *, retry_s: float | None = None) -> None:
        self.set(f"soon {self._sequence}", 0.0, operation, retry_s=retry_s)

    def cancel(self, key: str) -> None:
        self.due.pop(key, None)

    def now_s(self) -> float:
        return self._now_s()

    def next_at(self) -> float | None:
        """Return when the first is due."""
        return min((at for at, _, _ in self.due.values()), default=None)

    def pop_due(self, now_s: float) -> tuple[Operation, Reply] | None:
        """Return the first that is due by then, and whom to tell how it went."""
        at, _, key = min(
            ((at, sequence, key) for key, (at, sequence, _) in self.due.items()),
            default=(now_s + 1, 0, ""),
        )
        if at > now_s:
            return None
        operation, retry_s = self.due.pop(key)[2], self.retries.pop(key)

        def reply(_value: object, code: int) -> None:
            if code and retry_s is not None and key not in self.due:
                self.set(key, retry_s, operation, retry_s=retry_s)

        return operation, reply


@dataclass
class Answer:
    """It is whatever one request was answered, so far."""

    given: list[Any] = field(default_factory=list)

    def __call__(self, message: Any, payload: Sequence[Any] = ()) -> None:
        assert not self.given, "answered twice"
        self.given.append(message)

    @property
    def waits(self) -> bool:
        return not self.given

    @property
    def value(self) -> Any:
        (response,) = self.given
        return response

    @property
    def code(self) -> int:
        return int(self.value.error_code)


class GroupWorld:
    """It is a coordinator over one shard. Appends are committed at once, unless ``hold``; then by
    ``commit`` or ``fail``."""

    def __init__(
        self,
        *,
        config: GroupConfig | None = None,
        log: Sequence[CoordinatorRecord] = (),
        safeguards: CoordinatorSafeguards = SAFE,
        clock: ManualClock | None = None,
        seed: str = "groups",
        deleted_ids: Sequence[str] = (),
    ) -> None:
        self.config = config if config is not None else group_settings()
        self.clock = clock if clock is not None else ManualClock()
        self.now_s = 0.0
        self.log = list(log)
        self.hold = False
        self.refuse: int = 0
        """Code with which appends are refused."""
        self.loading = False
        self.expects_sound = True
        """Whether invariants must hold."""
        self.unavailable: int = 0
        """Code with which the engine refuses everything."""
        self.timers = ManualTimers(lambda: self.now_s)
        self._pending: list[Callable[[int], None]] = []
        self._events: list[Callable[[], None]] = []
        self._running = False
        self.shard = GroupShard(
            0,
            self.timers,
            config=self.config,
            clock=self.clock,
            entropy=SeededEntropy(seed),
            safeguards=safeguards,
            deleted_ids=deleted_ids,
        )
        for record in self.log:
            if record == BARRIER:
                continue
            self.shard.replay(record)
        for result in self.shard.loaded(self.now_s) or ():
            self._carry_out(result, lambda _value, _code: None)
        self.groups = GroupCoordinator(self)

    # ---- the engine

    def write(
        self,
        key: str,
        operation: Callable[[GroupShard], Result[T]],
        reply: Callable[[T | None, int], None],
    ) -> None:
        if self.unavailable:
            reply(None, self.unavailable)
        else:
            self._submit(lambda: self._write(operation, reply))

    def write_partition(
        self,
        partition: int,
        operation: Callable[[GroupShard], Result[T]],
        reply: Callable[[T | None, int], None],
    ) -> None:
        self.write("", operation, reply)

    def write_all(self, operation: Callable[[GroupShard], Result[T]]) -> None:
        self._submit(lambda: self._write(operation, lambda _value, _code: None))

    def read(
        self,
        key: str,
        operation: Callable[[GroupShard], T],
        reply: Callable[[T | None, int], None],
    ) -> None:
        if self.unavailable:
            return reply(None, self.unavailable)
        try:
            value = operation(self.shard)
        except ApiError as error:
            return reply(None, error.code)
        reply(value, 0)

    read_confirmed = read

    def all_shards(self, operation: Callable[[GroupShard], T]) -> list[T]:
        return [operation(self.shard)]

    def _submit(self, event: Callable[[], None]) -> None:
        """Take one thing at a time, as the real one does."""
        self._events.append(event)
        if self._running:
            return
        self._running = True
        try:
            while self._events:
                self._events.pop(0)()
        finally:
            self._running = False
        if self.expects_sound:
            assert self.shard.broken is None
            for group in self.shard.groups.values():
                check_group(group)

    def _write(
        self, operation: Callable[[GroupShard], Result[T]], reply: Callable[[T | None, int], None]
    ) -> None:
        try:
            result = operation(self.shard)
        except ApiError as error:
            return reply(None, error.code)
        self._carry_out(result, reply)

    def _carry_out(self, result: Result[T], reply: Callable[[T | None, int], None]) -> None:
        def finish(code: int) -> None:
            if code == 0:
                if result.on_committed is not None:
                    result.on_committed()
                if result.reply is not None:
                    reply(result.reply, 0)
                return
            if result.on_failure is not None:
                result.on_failure(code)
            if result.reply is not None or result.on_failure is None:
                reply(None, code)

        if result.records:
            if self.refuse:
                return finish(self.refuse)
            self.log += result.records
            for record in result.records:
                if record != BARRIER:
                    self.shard.replay(record)
            if self.hold:
                self._pending.append(finish)
                return
        finish(0)

    def commit(self) -> None:
        """What is held is committed."""
        self._settle(0)

    def fail(self, code: int = RequestTimedOutError.code) -> None:
        """What is held is not known to be committed."""
        self._settle(code)

    def _settle(self, code: int) -> None:
        pending, self._pending = self._pending, []
        for finish in pending:
            self._submit(partial(finish, code))

    # ---- time

    def advance(self, seconds: float) -> None:
        """Time passes, and what is due runs."""
        until_s = self.now_s + seconds
        while True:
            next_at = self.timers.next_at()
            step_s = until_s if next_at is None else min(max(next_at, self.now_s), until_s)
            self.clock.advance(round((step_s - self.now_s) * 1000))
            self.now_s = step_s
            due = self.timers.pop_due(self.now_s)
            if due is None:
                if self.now_s >= until_s:
                    return
                continue
            self._submit(partial(self._run, *due))

    def _run(self, operation: Operation, reply: Reply) -> None:
        self._write(lambda _: operation(), reply)

    def restarted(self, deleted_ids: Sequence[str] = ()) -> GroupWorld:
        """Return the next coordinator, which has read the log and knows of deleted topics."""
        world = GroupWorld(
            config=self.config,
            log=self.log,
            clock=self.clock,
            seed=f"next-{len(self.log)}",
            deleted_ids=deleted_ids,
        )
        self.timers.closed = True
        self.timers.due.clear()
        return world

    # ---- requests

    def group(self, group_id: str = "g") -> Group:
        return self.shard.groups[group_id]

    def join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        instance: str | None = None,
        protocols: Sequence[tuple[str, bytes]] = (("range", subscribed("t")),),
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        client: str = "c",
    ) -> Answer:
        answer = Answer()
        request = JoinGroupRequest(
            group,
            session_ms,
            rebalance_ms,
            member_id,
            instance,
            protocol_type,
            [GroupProtocol(name, metadata) for name, metadata in protocols],
        )
        self.groups.join(client, "10.0.0.1", request, answer)
        return answer

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = "g",
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> Answer:
        answer = Answer()
        given = [MemberAssignment(*item) for item in (assignments or {}).items()]
        self.groups.sync(
            SyncGroupRequest(
                group, generation, member_id, instance, protocol_type, protocol_name, given
            ),
            answer,
        )
        return answer

    def heartbeat(
        self, member_id: str, generation: int, *, group: str = "g", instance: str | None = None
    ) -> int:
        answer = Answer()
        self.groups.heartbeat(HeartbeatRequest(group, generation, member_id, instance), answer)
        return answer.code

    def leave(self, *members: tuple[str, str | None] | str, group: str = "g") -> Answer:
        answer = Answer()
        leaving = [
            LeavingMember(m) if isinstance(m, str) else LeavingMember(m[0], m[1]) for m in members
        ]
        self.groups.leave(LeaveGroupRequest(group, leaving), answer)
        return answer

    def commit_offset(
        self,
        offset: int = 1,
        *,
        member_id: str = "",
        generation: int = -1,
        instance: str | None = None,
        group: str = "g",
        topic: str = "t",
        partition: int = 0,
        metadata: str | None = None,
        topic_id: str = "",
    ) -> Answer:
        answer = Answer()
        item = OffsetCommitPartition(partition, offset, 0, metadata)
        self.groups.commit(
            OffsetCommitRequest(
                group, generation, member_id, instance, [OffsetCommitTopic(topic, [item], topic_id)]
            ),
            answer,
        )
        return answer

    def offsets(
        self, *, group: str = "g", member_id: str = "", generation: int = -1
    ) -> dict[tuple[str, int], int]:
        answer = Answer()
        self.groups.fetch_offsets(
            OffsetFetchRequest(group, None, member_id=member_id, generation_id=generation), answer
        )
        assert answer.code == 0
        return {
            (topic.topic, item.partition): item.offset
            for topic in answer.value.topics
            for item in topic.partitions
        }

    # ---- whole plays

    def new_id(self, **options: Any) -> str:
        """Return the id that a new dynamic member is given."""
        answer: JoinGroupResponse = self.join(**options).value
        assert answer.error_code == 79
        return answer.member_id

    def player(self, **options: Any) -> Player:
        """Return a member that has sent its JoinGroup."""
        static = options.get("instance") is not None
        member_id = "" if static else self.new_id(**options)
        return Player(self, self.join(member_id, **options), options, member_id)

    def stable(self, count: int = 1, **options: Any) -> list[Player]:
        """Make a stable group of so many members in its first generation."""
        instances = options.pop("instances", [None] * count)
        players = [self.player(instance=instance, **options) for instance in instances]
        self.advance(2 * self.config.group_initial_rebalance_delay_ms / 1000)
        self.settle(players)
        return players

    def settle(self, players: Sequence[Player]) -> None:
        """All have joined: have the leader assign its id to everybody."""
        for player in players:
            player.take_in_join()
        syncs = [player.sync() for player in players]
        assert [answer.code for answer in syncs] == [0] * len(players)


@dataclass
class Player:
    """It is a member that plays by the rules; ``joining`` is its last JoinGroup."""

    world: GroupWorld
    joining: Answer
    options: dict[str, Any]
    member_id: str = ""
    generation: int = -1
    leader: str = ""
    members: list[str] = field(default_factory=list)

    def take_in_join(self) -> JoinGroupResponse:
        response: JoinGroupResponse = self.joining.value
        assert response.error_code == 0
        self.member_id, self.generation = response.member_id, response.generation_id
        self.leader = response.leader
        self.members = [member.member_id for member in response.members]
        return response

    @property
    def where(self) -> dict[str, Any]:
        names = ("group", "instance")
        return {name: self.options[name] for name in names if name in self.options}

    def join(self, **options: Any) -> Answer:
        self.joining = self.world.join(self.member_id, **{**self.options, **options})
        return self.joining

    def sync(self) -> Answer:
        """The leader assigns to everybody its own id."""
        given = {member_id: member_id.encode() for member_id in self.members}
        return self.world.sync(self.member_id, self.generation, given, **self.where)

    def synced(self) -> SyncGroupResponse:
        response: SyncGroupResponse = self.sync().value
        return response

    def heartbeat(self) -> int:
        return self.world.heartbeat(self.member_id, self.generation, **self.where)

    def leave(self) -> Answer:
        return self.world.leave(self.member_id, group=self.options.get("group", "g"))

    def commit(self, offset: int = 1, **options: Any) -> Answer:
        return self.world.commit_offset(
            offset,
            member_id=self.member_id,
            generation=self.generation,
            **{**self.where, **options},
        )


def durable(
    shard: GroupShard,
) -> dict[str, tuple[SavedGroup | None, dict[Any, Any], dict[str, int]]]:
    """Return what a shard has learned by replay."""
    return {
        group_id: (group.saved, dict(group.offsets), dict(group.departures.durable))
        for group_id, group in sorted(shard.groups.items())
        if group.saved is not None or group.offsets or not group.departures.is_nothing
    }

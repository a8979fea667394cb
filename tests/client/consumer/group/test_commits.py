"""Commits keep their order, are tried again, and are fenced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from oncelog import GroupMetadata, OffsetAndMetadata, TopicPartition
from oncelog.config import ConnectionOptions
from oncelog.consumer.group import commits as module
from oncelog.consumer.group.commits import CommitIdentity, Commits
from oncelog.consumer.group.coordinator import Coordinator
from oncelog.core.router import Router
from oncelog.errors import (
    CommitFailedError,
    DeadlineExceededError,
    GroupAuthorizationFailedError,
    IllegalGenerationError,
    InvalidCommitOffsetSizeError,
    OffsetMetadataTooLargeError,
    RebalanceInProgressError,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
    UnstableOffsetCommitError,
)
from oncelog_protocol.errors import ApiError
from oncelog_protocol.messages import groups as wire
from oncelog_protocol.messages.base import ApiKey
from oncelog_runtime.entropy import SeededEntropy
from oncelog_runtime.tasks import Tasks
from support.fake_cluster import Action
from support.fake_members import FakeCoordinator, FakeMember, GroupCluster
from support.histories import ListHistory
from support.waiting import eventually

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def at(offset: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset)


class Someone(CommitIdentity):
    """It is a member of generation 3."""

    generation = 3
    in_flux = False

    def now(self, partitions: Sequence[TopicPartition]) -> GroupMetadata:
        return GroupMetadata(self.group_id, self.generation, "m")

    def asking(self) -> GroupMetadata:
        return self.now(())

    def fenced(self, who: GroupMetadata, code: int) -> bool:
        return self.in_flux


class World:
    def __init__(self, cluster: GroupCluster, commits: Commits, history: ListHistory) -> None:
        self.cluster = cluster
        self.commits = commits
        self.history = history
        self.group = cluster.group()

    def deadline(self, timeout_s: float = 5) -> float:
        return asyncio.get_running_loop().time() + timeout_s

    def offsets(self) -> dict[TopicPartition, int]:
        return {tp: item.offset for tp, item in self.group.offsets.items()}

    def ends(self) -> list[str]:
        return [event[0] for event in self.history.events]


@asynccontextmanager
async def committing(identity: CommitIdentity | None = None) -> AsyncIterator[World]:
    async with GroupCluster() as cluster:
        options = ConnectionOptions(bootstrap_servers=cluster.bootstrap)
        tasks, history = Tasks("test"), ListHistory()
        router = Router(options, entropy=SeededEntropy(1), history=history)
        await router.start()
        coordinator = Coordinator(router, "g", tasks)
        commits = Commits(router, coordinator, identity or CommitIdentity("g"))
        group = cluster.group()
        if identity is not None:
            group.members["m"] = FakeMember(b"")
            group.generation, group.state = 3, "Stable"
        try:
            yield World(cluster, commits, history)
        finally:
            await tasks.close()
            await router.close()


async def test_what_was_committed_is_known_and_comes_back() -> None:
    async with committing() as world:
        offsets = {A: OffsetAndMetadata(5, "note", 2), B: at(0)}
        await world.commits.commit(offsets, world.deadline())
        assert world.commits.known == offsets
        found = await world.commits.fetch([A, B, TopicPartition("u", 0)], world.deadline())
        assert found == {**offsets, TopicPartition("u", 0): None}
        await world.commits.commit({}, world.deadline())
        assert world.cluster.count(ApiKey.OFFSET_COMMIT) == 1
        assert world.history.events == [
            ("invoke", 1, "commit", "g", "", -1, {A: 5, B: 0}),
            ("ok", 1, [], []),
            ("invoke", 2, "committed", "g", "", -1, dict.fromkeys(found)),
            ("ok", 2, [5, 0, None], []),
        ]


async def test_an_older_commit_that_is_tried_again_never_overtakes() -> None:
    async with committing() as world:
        world.cluster.rule(ApiKey.OFFSET_COMMIT, Action.DROP_BEFORE, times=2)
        tasks = [
            asyncio.ensure_future(world.commits.commit({A: at(n)}, world.deadline()))
            for n in range(1, 6)
        ]
        await asyncio.gather(*tasks)
        sent = [
            request.topics[0].partitions[0].offset
            for _, request in world.cluster.requests
            if isinstance(request, wire.OffsetCommitRequest)
        ]
        assert sent == [1, 1, 1, 2, 3, 4, 5]


async def test_a_denial_names_the_command_that_allows_it() -> None:
    async with committing() as world:
        error, told = GroupAuthorizationFailedError, "may not READ group g: oncelog acls add"
        for api in (ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH):
            world.cluster.rule(api, Action.ERROR, error=error)
        with pytest.raises(error, match=told):
            await world.commits.commit({A: at(5)}, world.deadline())
        with pytest.raises(error, match=told):
            await world.commits.fetch([A], world.deadline())


async def test_an_offset_from_before_its_partition_was_lost_does_not_move_the_group_back() -> None:
    """It goes to another member, which commits more, and comes back; then this one tries again."""
    async with committing(Someone("g")) as world:
        error = RequestTimedOutError
        rule = world.cluster.rule(ApiKey.OFFSET_COMMIT, Action.ERROR, error=error, times=1000)
        explicit = asyncio.ensure_future(
            world.commits.commit({A: at(5), B: at(5)}, world.deadline())
        )
        waiting = asyncio.ensure_future(world.commits.commit({A: at(6)}, world.deadline()))
        await eventually(lambda: rule.met >= 1)
        world.commits.forget(A)
        for task in (explicit, waiting):
            with pytest.raises(CommitFailedError, match="t-0 was taken away"):
                await task
        rule.times = rule.met
        await world.commits.commit({A: at(9), B: at(9)}, world.deadline())
        assert world.commits.known == {A: at(9), B: at(9)}


@pytest.mark.parametrize("action", [Action.DROP_BEFORE, Action.DROP_AFTER, Action.ERROR])
async def test_what_may_pass_is_tried_again(action: Action) -> None:
    async with committing(Someone("g")) as world:
        for api in (ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH):
            world.cluster.rule(api, action, error=RequestTimedOutError, times=2)
        await world.commits.commit({A: at(1)}, world.deadline())
        assert (await world.commits.fetch([A], world.deadline()))[A] == at(1)
        assert world.ends() == ["invoke", "info", "invoke", "info", "invoke", "ok"] * 2


async def test_what_may_pass_and_does_not() -> None:
    async with committing() as world:
        world.cluster.rule(
            ApiKey.OFFSET_COMMIT, Action.ERROR, error=RebalanceInProgressError, times=10**6
        )
        with pytest.raises(DeadlineExceededError, match="rebalanc") as caught:
            await world.commits.commit({A: at(1)}, world.deadline(0.1))
        assert caught.value.definite, "every attempt was refused"
        world.cluster.rules.clear()
        world.cluster.rule(ApiKey.OFFSET_COMMIT, Action.DROP_AFTER, times=10**6)
        with pytest.raises(DeadlineExceededError) as caught:
            await world.commits.commit({A: at(1)}, world.deadline(0.1))
        assert not caught.value.definite


async def test_a_commit_does_not_wait_for_another_beyond_its_time() -> None:
    async with committing() as world:
        rule = world.cluster.rule(ApiKey.OFFSET_COMMIT, Action.HOLD)
        first = asyncio.ensure_future(world.commits.commit({A: at(1)}, world.deadline()))
        await eventually(lambda: rule.met)
        with pytest.raises(DeadlineExceededError, match="earlier"):
            await world.commits.commit({A: at(2)}, world.deadline(0.05))
        rule.release.set()
        await first
        assert world.offsets() == {A: 1}


@pytest.mark.parametrize("error", [UnknownMemberIdError, IllegalGenerationError])
async def test_a_member_that_is_none(error: type[ApiError]) -> None:
    async with committing(Someone("g")) as world:
        for api in (ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH):
            world.cluster.rule(api, Action.ERROR, error=error)
        with pytest.raises(CommitFailedError, match=error.name):
            await world.commits.commit({A: at(1)}, world.deadline())
        with pytest.raises(CommitFailedError, match="generation 3"):
            await world.commits.fetch([A], world.deadline())
        assert world.ends() == ["invoke", "fail"] * 2
        assert world.offsets() == {}


async def test_a_generation_that_has_just_changed_is_tried_again_in_the_new_one() -> None:
    identity = Someone("g")
    async with committing(identity) as world:
        identity.generation, identity.in_flux = 2, True
        commit = asyncio.ensure_future(world.commits.commit({A: at(1)}, world.deadline()))
        await eventually(lambda: world.cluster.count(ApiKey.OFFSET_COMMIT) > 1)
        identity.generation = 3
        await commit
        assert world.offsets() == {A: 1}


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OffsetMetadataTooLargeError, "t-1"),
        (InvalidCommitOffsetSizeError, "t-1"),
        (TopicAuthorizationFailedError, "may not READ topic t: oncelog acls add"),
    ],
)
async def test_one_bad_partition(
    error: type[ApiError], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = FakeCoordinator.commit

    def commit(self: FakeCoordinator, broker: int, request: wire.OffsetCommitRequest) -> object:
        response: wire.OffsetCommitResponse = honest(self, broker, request)
        for topic in response.topics:
            for item in topic.partitions:
                item.error_code = error.code if item.partition == 1 else 0
        return response

    monkeypatch.setattr(FakeCoordinator, "commit", commit)
    async with committing() as world:
        with pytest.raises(error, match=told):
            await world.commits.commit({A: at(1), B: at(1)}, world.deadline())
        assert world.commits.known == {A: at(1)}, "the other one was taken"
        assert world.ends() == ["invoke", "info"]


async def test_a_topic_that_stays_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SPREAD_S", 0.1)

    def commit(self: FakeCoordinator, broker: int, request: object) -> object:
        return wire.OffsetCommitResponse(0, None, [])

    monkeypatch.setattr(FakeCoordinator, "commit", commit)
    async with committing() as world:
        with pytest.raises(UnknownTopicOrPartitionError, match="t-0"):
            await world.commits.commit({A: at(1)}, world.deadline())


async def test_offsets_of_an_open_transaction_are_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    honest, asked = FakeCoordinator.fetch, 0

    def fetch(self: FakeCoordinator, broker: int, request: wire.OffsetFetchRequest) -> object:
        nonlocal asked
        asked += 1
        assert request.require_stable
        response: wire.OffsetFetchResponse = honest(self, broker, request)
        if asked < 3:
            response.topics[0].partitions[0].error_code = UnstableOffsetCommitError.code
        return response

    monkeypatch.setattr(FakeCoordinator, "fetch", fetch)
    async with committing() as world:
        await world.commits.commit({A: at(1)}, world.deadline())
        assert (await world.commits.fetch([A], world.deadline()))[A] == at(1)


async def test_what_is_computed_is_computed_in_its_turn() -> None:
    """A background commit must keep its hands off what an earlier one is still sending."""
    async with committing() as world:

        def following() -> dict[TopicPartition, OffsetAndMetadata]:
            known = world.commits.known[A]
            assert known is not None
            return {A: at(known.offset + 1)}

        await asyncio.gather(
            world.commits.commit({A: at(5)}, world.deadline()),
            world.commits.commit(following, world.deadline()),
        )
        assert world.offsets() == {A: 6}


def unstable(answer: wire.OffsetFetchResponse, *partitions: int) -> wire.OffsetFetchResponse:
    for item in answer.topics[0].partitions:
        if item.partition in partitions:
            item.error_code, item.offset = UnstableOffsetCommitError.code, -1
    return answer


async def test_what_is_settled_is_told_before_the_rest() -> None:
    async with committing() as world:
        await world.commits.commit({A: at(5), B: at(6)}, world.deadline())
        coordinator, pending = world.cluster.coordinator, [1]
        fetch = coordinator.fetch

        def answer(broker: int, request: wire.OffsetFetchRequest) -> wire.OffsetFetchResponse:
            return unstable(fetch(broker, request), *pending)

        coordinator.fetch = answer  # type: ignore[method-assign]
        found = await world.commits.fetch_settled([A, B], world.deadline())
        assert found == {A: OffsetAndMetadata(5, "", -1)}
        waiting = asyncio.ensure_future(world.commits.fetch_settled([B], world.deadline()))
        all_of_it = asyncio.ensure_future(world.commits.fetch([B, A, B], world.deadline()))
        await eventually(lambda: world.cluster.count(ApiKey.OFFSET_FETCH) > 3)
        assert not waiting.done()
        assert not all_of_it.done()
        pending.clear()
        assert [item.offset for item in (await waiting).values() if item] == [6]
        assert list(await all_of_it) == [B, A]
        assert "fail" in world.ends(), "what was told of some is no claim about all"


async def test_offsets_that_stay_unsettled() -> None:
    async with committing() as world:
        await world.commits.commit({A: at(5)}, world.deadline())
        coordinator = world.cluster.coordinator
        fetch = coordinator.fetch
        coordinator.fetch = lambda broker, request: unstable(  # type: ignore[method-assign]
            fetch(broker, request), 0
        )
        with pytest.raises(DeadlineExceededError, match="t-0 are in a transaction") as caught:
            await world.commits.fetch_settled([A], world.deadline(0.05))
        assert isinstance(caught.value.__cause__, UnstableOffsetCommitError)

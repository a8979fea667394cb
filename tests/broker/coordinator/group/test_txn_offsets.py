"""Offsets in transactions are verified, fenced, pending and decided by requests and markers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_broker.coordinator.group import pending as pending_module
from oncelog_broker.coordinator.group.service import Verified
from oncelog_protocol.coordinators import GROUP_TOPIC
from oncelog_protocol.errors import (
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    FencedInstanceIdError,
    IllegalGenerationError,
    InvalidGroupIdError,
    InvalidProducerEpochError,
    InvalidRequestError,
    NotCoordinatorError,
    OffsetMetadataTooLargeError,
    ProducerFencedError,
    RequestTimedOutError,
    UnknownMemberIdError,
    UnstableOffsetCommitError,
)
from oncelog_protocol.messages.groups import (
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetFetchTopic,
)
from oncelog_protocol.messages.transactions import (
    TxnOffsetCommitPartition,
    TxnOffsetCommitRequest,
    TxnOffsetCommitTopic,
)
from oncelog_protocol.types import TopicPartition
from support.group_world import Answer, GroupWorld
from unsafe.coordinators import without

PID = 70
UNSTABLE = UnstableOffsetCommitError.code


class Asked:
    """It is a transaction coordinator that answers when told."""

    def __init__(self, code: int | None = 0) -> None:
        self.code = code
        self.asked: list[TopicPartition] = []
        self.waiting: list[Callable[[int], None]] = []

    def __call__(self, tp: TopicPartition, callback: Callable[[int], None]) -> None:
        self.asked.append(tp)
        if self.code is None:
            self.waiting.append(callback)
        else:
            callback(self.code)

    def answer(self, code: int = 0) -> None:
        self.waiting.pop(0)(code)


def request(
    offset: int = 10,
    *,
    epoch: int = 3,
    pid: int = PID,
    partition: int = 0,
    group: str = "g",
    topic: str = "t",
    generation: int = -1,
    member_id: str = "",
    instance: str | None = None,
    metadata: str | None = None,
    transactional_id: str = "tx",
) -> TxnOffsetCommitRequest:
    part = TxnOffsetCommitPartition(partition, offset, 0, metadata)
    topics = [TxnOffsetCommitTopic(topic, [part])]
    return TxnOffsetCommitRequest(
        transactional_id, pid, epoch, group, topics, generation, member_id, instance
    )


def pend(world: GroupWorld, verify: Asked, offset: int = 10, **options: object) -> Answer:
    answer = Answer()
    world.groups.commit_in_txn(request(offset, **options), verify, answer)  # type: ignore[arg-type]
    return answer


def end(world: GroupWorld, epoch: int = 4, *, pid: int = PID, commit: bool = True) -> list[int]:
    heard: list[int] = []
    world.groups.end_transaction(0, pid, epoch, commit, heard.append)
    return heard


def fetch(world: GroupWorld, *partitions: int, stable: bool = True) -> list[tuple[int, int]]:
    answer = Answer()
    topics = [OffsetFetchTopic("t", list(partitions))] if partitions else None
    world.groups.fetch_offsets(OffsetFetchRequest("g", topics, stable), answer)
    return [(p.error_code, p.offset) for t in answer.value.topics for p in t.partitions]


def test_offsets_are_unstable_until_the_marker() -> None:
    world, verify = GroupWorld(), Asked()
    world.commit_offset(1)
    assert pend(world, verify).code == 0
    assert fetch(world, 0, 1) == [(UNSTABLE, -1), (0, -1)]
    assert fetch(world, 0, stable=False) == [(0, 1)]
    assert end(world) == [0]
    assert fetch(world, 0) == [(0, 10)]


def test_offsets_have_the_number_that_was_told() -> None:
    world = GroupWorld()

    def verify(tp: TopicPartition, told: Verified) -> None:
        told(0, 4)

    answer = Answer()
    world.groups.commit_in_txn(request(10), verify, answer)
    assert answer.code == 0
    assert pend(world, Asked(code=1), 11, partition=1).code == 0, "nobody is asked again"
    heard: list[int] = []
    world = world.restarted()
    for number in (3, 4, 4):
        world.groups.end_transaction(0, PID, 3, True, heard.append, number=number)
    assert heard == [InvalidProducerEpochError.code, 0, 0]
    assert fetch(world, 0, 1) == [(0, 10), (0, 11)]


def test_unstable_offsets_are_not_left_out_when_all_are_asked_for() -> None:
    world, verify = GroupWorld(), Asked()
    pend(world, verify, partition=1)
    world.commit_offset(5)
    assert fetch(world) == [(0, 5), (UNSTABLE, -1)]
    assert fetch(world, stable=False) == [(0, 5)]


def test_the_coordinator_is_asked_once_a_transaction() -> None:
    world, verify = GroupWorld(), Asked()
    pend(world, verify, 10)
    pend(world, verify, 11, partition=1)
    pend(world, verify, 12, group="h")
    assert verify.asked == [TopicPartition(GROUP_TOPIC, 0)]
    assert end(world) == [0]
    pend(world, verify, 13, epoch=4)
    assert len(verify.asked) == 2


@pytest.mark.parametrize(
    "code", [ProducerFencedError.code, CoordinatorNotAvailableError.code, RequestTimedOutError.code]
)
def test_what_the_coordinator_refuses_is_not_written(code: int) -> None:
    world = GroupWorld()
    assert pend(world, Asked(code)).code == code
    assert not world.log
    assert not world.shard.transactions._guards
    assert not world.shard.groups


def test_a_guard_of_a_transaction_that_has_ended_meanwhile_is_void() -> None:
    world, verify = GroupWorld(), Asked(None)
    late = pend(world, verify)
    assert end(world, 4, commit=False) == [0]
    # The next transaction of the producer takes a guard of its own (the ABA of KIP-890).
    following = pend(world, verify, 20, epoch=4)
    verify.answer()
    assert late.code == ConcurrentTransactionsError.code
    assert not world.shard.groups
    verify.answer()
    assert following.code == 0
    assert end(world, 5) == [0]
    assert world.offsets() == {("t", 0): 20}


def test_a_guard_does_not_outlive_its_coordinator() -> None:
    world, verify = GroupWorld(), Asked(None)
    late = pend(world, verify)
    world.shard.unload(NotCoordinatorError.code)
    verify.answer()
    assert late.code == ConcurrentTransactionsError.code


def test_a_second_request_goes_in_under_the_first_one_s_guard() -> None:
    world, verify = GroupWorld(), Asked(None)
    one, two = pend(world, verify, 10), pend(world, verify, 11, partition=1)
    verify.answer()
    verify.answer()
    assert (one.code, two.code) == (0, 0)
    assert end(world) == [0]
    assert world.offsets() == {("t", 0): 10, ("t", 1): 11}


def test_pending_offsets_outlive_the_coordinator() -> None:
    world, verify = GroupWorld(), Asked()
    pend(world, verify)
    world = world.restarted()
    assert fetch(world, 0) == [(UNSTABLE, -1)]
    pend(world, verify, 11, partition=1)
    assert len(verify.asked) == 1
    assert end(world) == [0]
    world = world.restarted()
    assert world.offsets() == {("t", 0): 10, ("t", 1): 11}
    assert not world.shard.transactions.open_transactions()


def test_a_marker_is_answered_when_what_it_decides_is_committed() -> None:
    world, verify = GroupWorld(), Asked()
    pend(world, verify)
    world.hold = True
    first = end(world)
    again = end(world)
    assert first == again == []
    assert fetch(world, 0) == [(0, 10)]
    world.commit()
    assert first == again == [0]


def test_a_marker_that_could_not_be_written_is_asked_for_again() -> None:
    world, verify = GroupWorld(), Asked()
    pend(world, verify)
    world.refuse = CoordinatorNotAvailableError.code
    assert end(world) == [CoordinatorNotAvailableError.code]
    world.refuse = 0
    assert fetch(world, 0) == [(UNSTABLE, -1)]
    assert end(world) == [0]
    assert fetch(world, 0) == [(0, 10)]


def test_a_marker_in_pieces_is_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_module, "MARKER_BYTES_MAX", 100)
    world, verify = GroupWorld(), Asked()
    for partition in range(9):
        pend(world, verify, partition, partition=partition)
    assert end(world) == [0]
    assert world.offsets() == {("t", n): n for n in range(9)}


@pytest.mark.parametrize("code", [NotCoordinatorError.code, CoordinatorLoadInProgressError.code])
def test_a_shard_that_is_not_here(code: int) -> None:
    world = GroupWorld()
    world.unavailable = code
    assert pend(world, Asked()).code == code
    assert end(world) == [code]
    told: list[tuple[object, int]] = []
    world.groups.open_transactions(0, lambda found, code: told.append((found, code)))
    assert told == [([], code)]


def test_open_transactions_of_a_partition() -> None:
    world, verify = GroupWorld(), Asked()
    pend(world, verify)
    told: list[list[tuple[int, ...]]] = []
    world.groups.open_transactions(
        0,
        lambda found, _: told.append(
            [
                (p.producer_id, p.producer_epoch, p.last_timestamp_ms, p.txn_start_offset)
                for p in found
            ]
        ),
    )
    assert told == [[(PID, 3, world.clock.now_ms(), 0)]]


# ---- who may


def test_members_are_fenced() -> None:
    world, verify = GroupWorld(), Asked()
    (player,) = world.stable(1, instances=["i"])

    def code(**options: object) -> int:
        return pend(world, verify, **options).code  # type: ignore[arg-type]

    me = player.member_id
    assert code(member_id=me, generation=2) == IllegalGenerationError.code
    assert code(member_id="other", generation=1) == UnknownMemberIdError.code
    assert code(member_id="other", generation=1, instance="i") == FencedInstanceIdError.code
    assert code() == UnknownMemberIdError.code
    assert code(member_id=me, generation=1, group="h") == IllegalGenerationError.code
    assert not verify.asked
    assert code(member_id=me, generation=1, instance="i") == 0


def test_a_member_that_is_fenced_while_the_coordinator_is_asked() -> None:
    world, verify = GroupWorld(), Asked(None)
    (player,) = world.stable(1)
    late = pend(world, verify, member_id=player.member_id, generation=1)
    player.leave()
    verify.answer()
    assert late.code in (UnknownMemberIdError.code, IllegalGenerationError.code)
    assert not world.shard.transactions.open_transactions()


def test_a_member_may_commit_while_its_generation_is_assigned() -> None:
    world = GroupWorld()
    player = world.player()
    world.advance(1)
    player.take_in_join()
    assert pend(world, Asked(), member_id=player.member_id, generation=1).code == 0


def test_a_client_that_ends_by_number_may_name_no_member() -> None:
    """So did all of them before KIP-447; who names one is checked as ever."""
    world, verify = GroupWorld(), Asked()
    world.stable(1)

    def code(by_number: bool, **options: object) -> int:
        answer = Answer()
        asked = request(**options)  # type: ignore[arg-type]
        world.groups.commit_in_txn(asked, verify, answer, by_number=by_number)
        return answer.code

    assert code(False) == UnknownMemberIdError.code
    assert code(True, generation=1) == UnknownMemberIdError.code
    assert code(True, member_id="other", generation=1) == UnknownMemberIdError.code
    assert not verify.asked
    assert code(True) == 0


def test_without_the_fence_whoever_was_a_member_goes_on() -> None:
    world = GroupWorld(safeguards=without("fence_generation"))
    world.stable(1)
    assert pend(world, Asked(), member_id="gone", generation=0).code == 0


def test_without_stability_the_next_owner_is_told_what_will_be_replaced() -> None:
    world = GroupWorld(safeguards=without("require_stable"))
    world.commit_offset(1)
    pend(world, Asked())
    assert fetch(world, 0) == [(0, 1)]


def test_where_epochs_stay_the_same_a_marker_ends_its_own() -> None:
    world = GroupWorld(safeguards=without("bump_epoch_per_txn"))
    pend(world, Asked(), epoch=3)
    assert end(world, 3) == [0]
    assert world.offsets() == {("t", 0): 10}


def test_what_is_no_transaction() -> None:
    world, verify = GroupWorld(), Asked()
    assert pend(world, verify, -1).code == InvalidRequestError.code
    assert pend(world, verify, pid=-1).code == InvalidRequestError.code
    assert pend(world, verify, epoch=-1).code == InvalidRequestError.code
    assert pend(world, verify, transactional_id="").code == InvalidRequestError.code
    assert pend(world, verify, group="").code == InvalidGroupIdError.code
    assert not verify.asked


@pytest.mark.parametrize("offset", [0, 2**63 - 1])
def test_any_offset_that_a_record_may_have_is_taken(offset: int) -> None:
    """Also beyond the log: whether it is there, nobody here knows."""
    world = GroupWorld()
    assert pend(world, Asked(), offset, metadata="x" * 4_096).code == 0
    assert end(world) == [0]
    assert world.offsets() == {("t", 0): offset}


def test_an_older_transaction_than_the_one_that_is_open() -> None:
    world, verify = GroupWorld(), Asked()
    pend(world, verify, epoch=3)
    assert pend(world, verify, 99, epoch=2).code == InvalidProducerEpochError.code


def test_nothing_is_added_for_what_is_refused() -> None:
    world, verify = GroupWorld(), Asked()
    answer = pend(world, verify, metadata="x" * 5_000)
    assert answer.value.topics[0].partitions[0].error_code == OffsetMetadataTooLargeError.code
    empty = Answer()
    world.groups.commit_in_txn(TxnOffsetCommitRequest("tx", PID, 0, "g", []), verify, empty)
    assert empty.code == 0
    assert not verify.asked
    assert not world.log


# ---- beside other things done to groups


def test_an_ordinary_commit_supersedes_what_was_pending() -> None:
    world, verify = GroupWorld(), Asked()
    pend(world, verify, 10)
    world.commit_offset(30)
    assert fetch(world, 0) == [(0, 30)]
    assert end(world) == [0]
    assert fetch(world, 0) == [(0, 30)]


def test_pending_offsets_keep_offsets_and_group_alive() -> None:
    world, verify = GroupWorld(), Asked()
    world.commit_offset(1)
    world.advance(world.config.offsets_retention_ms / 1000 - 1)
    pend(world, verify)
    pend(world, verify, group="h")
    world.advance(world.config.offsets_retention_check_interval_ms / 1000 + 1)
    assert fetch(world, 0, stable=False) == [(0, 1)]
    assert sorted(world.shard.groups) == ["g", "h"]
    assert end(world, commit=False) == [0]
    assert sorted(world.shard.groups) == ["g"]
    world.advance(world.config.offsets_retention_check_interval_ms / 1000 + 1)
    assert not world.shard.groups


def test_deleting_a_group_drops_what_is_pending() -> None:
    world, verify = GroupWorld(), Asked()
    world.commit_offset(1)
    pend(world, verify)
    answer = Answer()
    world.groups.delete(["g"], answer)
    assert [result.error_code for result in answer.value] == [0]
    assert not world.shard.groups
    assert end(world) == [0]
    assert not world.shard.groups


def test_deleting_offsets_drops_what_is_pending() -> None:
    world, verify = GroupWorld(), Asked()
    pend(world, verify)
    answer = Answer()
    asked = OffsetDeleteRequest("g", [OffsetFetchTopic("t", [0])])
    world.groups.delete_offsets(asked, answer)
    assert [p.error_code for p in answer.value.topics[0].partitions] == [0]
    assert not world.shard.groups


def test_deleting_a_topic_drops_what_is_pending() -> None:
    world, verify = GroupWorld(), Asked()
    pend(world, verify)
    pend(world, verify, 20, topic="u")
    world.groups.topics_deleted({"t": ""})
    assert end(world) == [0]
    assert world.offsets() == {("u", 0): 20}


def test_describe_and_list_do_not_see_what_is_pending() -> None:
    world = GroupWorld()
    pend(world, Asked())
    answer = Answer()
    world.groups.describe(["g"], True, answer)
    assert answer.value[0].state == "Empty"
    assert answer.value[0].offsets == []
    assert [group.group_id for group in world.groups.list_groups([]).groups] == ["g"]


# ---- any story


class Story:
    """It has a transaction coordinator and a model of a group's offsets, beside a shard.

    Two producers commit offsets of three partitions, in transactions that end either way; requests
    and markers of transactions that are over come again at any time, and the shard is read anew
    from its log.
    """

    def __init__(self) -> None:
        self.world = GroupWorld()
        self.epochs = [0, 0]
        self.committed: dict[int, int] = {}
        self.pending: dict[int, dict[int, int]] = {}
        """By partition: offsets by producer, in the order in which they came."""

    def verify(self, pid: int, epoch: int) -> Asked:
        return Asked(0 if epoch == self.epochs[pid] else ProducerFencedError.code)

    def pend(self, pid: int, partition: int, offset: int, age: int) -> None:
        epoch = self.epochs[pid] - age
        if epoch < 0:
            return
        code = pend(
            self.world,
            self.verify(pid, epoch),
            offset,
            pid=pid,
            epoch=epoch,
            partition=partition,
        ).code
        assert (code == 0) == (age == 0)
        if age == 0:
            items = self.pending.setdefault(partition, {})
            items.pop(pid, None)
            items[pid] = offset

    def end(self, pid: int, commit: bool, age: int) -> None:
        if age:
            # A marker that was written before: as a repeat, or refused by a newer transaction.
            assert end(self.world, self.epochs[pid] + 1 - age, pid=pid, commit=commit)[0] in (
                0,
                InvalidProducerEpochError.code,
            )
            return
        self.epochs[pid] += 1
        assert end(self.world, self.epochs[pid], pid=pid, commit=commit) == [0]
        for partition, items in list(self.pending.items()):
            if pid not in items:
                continue
            if commit:
                self.committed[partition] = items[pid]
                while next(iter(items)) != pid:
                    del items[next(iter(items))]
            del items[pid]

    def commit(self, partition: int, offset: int) -> None:
        self.world.commit_offset(offset, partition=partition)
        self.committed[partition] = offset
        self.pending.pop(partition, None)

    def check(self) -> None:
        for partition in range(3):
            offset = self.committed.get(partition, -1)
            assert fetch(self.world, partition, stable=False) == [(0, offset)]
            stable = (UNSTABLE, -1) if self.pending.get(partition) else (0, offset)
            assert fetch(self.world, partition) == [stable]
        assert not self.world.shard.transactions._guards


PRODUCERS, PARTITIONS = st.integers(0, 1), st.integers(0, 2)
AGES = st.sampled_from([0, 0, 0, 1, 2])
STEPS = st.one_of(
    st.tuples(st.just("pend"), PRODUCERS, PARTITIONS, st.integers(0, 99), AGES),
    st.tuples(st.just("end"), PRODUCERS, st.booleans(), AGES),
    st.tuples(st.just("commit"), PARTITIONS, st.integers(0, 99)),
    st.tuples(st.just("restart")),
)


@given(st.lists(STEPS, max_size=25))
def test_whatever_happens_offsets_are_those_of_committed_transactions(
    steps: list[tuple[object, ...]],
) -> None:
    story = Story()
    for name, *arguments in steps:
        if name == "restart":
            story.world = story.world.restarted()
        else:
            getattr(story, str(name))(*arguments)
        story.check()
    for pid in range(2):
        story.end(pid, False, 0)
    assert not story.world.shard.transactions.open_transactions()
    assert all(not group.pending_offsets for group in story.world.shard.groups.values())

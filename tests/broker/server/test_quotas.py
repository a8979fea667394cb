"""The byte pool decides who must wait, who goes on, and in which order."""

from __future__ import annotations

from oncelog_broker.server.quotas import READ_BYTES_MIN, SMALL_BYTES, BytePool
from support.waiting import eventually

KIB = 1024


class Member:
    def __init__(self, pool: BytePool) -> None:
        self.pool = pool
        self.held = 0
        self.waits = False

    def held_bytes(self) -> int:
        return self.held

    def resume_from_pool(self) -> None:
        self.waits = False

    def hold(self, held: int) -> None:
        self.held = held
        self.pool.update(self, held)

    def ask(self) -> bool:
        self.waits = self.pool.must_wait(self)
        return self.waits


async def test_little_is_not_counted() -> None:
    pool = BytePool(1000 * KIB)
    member = Member(pool)
    member.hold(SMALL_BYTES)
    assert pool.used == 0
    member.hold(SMALL_BYTES + 1)
    assert pool.used == SMALL_BYTES + 1
    member.hold(10)
    assert pool.used == 0
    assert not member.ask()


async def test_over_the_limit_members_wait_in_line_until_there_is_room() -> None:
    pool = BytePool(1000 * KIB)
    holder, first, second = Member(pool), Member(pool), Member(pool)
    holder.hold(2000 * KIB)
    assert holder.ask()
    assert first.ask()
    assert second.ask()
    # One goes on without room, so that what is half there can be completed.
    await eventually(lambda: not holder.waits)
    assert first.waits
    assert second.waits
    assert not holder.ask()
    holder.hold(0)
    await eventually(lambda: not first.waits)
    await eventually(lambda: not second.waits)
    assert pool.used == 0
    assert pool.exhausted_count >= 1


async def test_nobody_reads_more_at_once_than_there_is_room_for() -> None:
    pool = BytePool(1000 * KIB)
    first, second = Member(pool), Member(pool)
    assert pool.room_for(first) == 1000 * KIB
    second.hold(900 * KIB)
    assert pool.room_for(first) == 100 * KIB
    second.hold(1200 * KIB)
    assert pool.room_for(first) == pool.room_for(second) == READ_BYTES_MIN
    assert second.ask()
    await eventually(lambda: not second.waits)
    # It is its turn to complete its frame.
    assert (pool.room_for(first), pool.room_for(second)) == (READ_BYTES_MIN, 1000 * KIB)


async def test_an_answer_takes_a_quarter_of_the_room() -> None:
    pool = BytePool(4000 * KIB)
    first, second = Member(pool), Member(pool)
    assert pool.room_for_answer(first) == 1000 * KIB
    first.hold(1000 * KIB)
    assert pool.room_for_answer(second) == 750 * KIB
    first.hold(4000 * KIB - 10)
    assert pool.room_for_answer(second) == 10
    first.hold(5000 * KIB)
    assert pool.room_for_answer(second) == 0
    pool.close()


async def test_whose_turn_it_is_has_room_for_a_small_answer() -> None:
    pool = BytePool(1000 * KIB)
    holder, member = Member(pool), Member(pool)
    holder.hold(2000 * KIB)
    assert member.ask()
    await eventually(lambda: not member.waits)
    assert pool.room_for_answer(member) == SMALL_BYTES
    assert pool.room_for_answer(holder) == 0
    pool.close()


async def test_a_full_pool_counts_again_by_itself() -> None:
    """Sent bytes leave without telling anybody."""
    pool = BytePool(1000 * KIB)
    sender, waiter, other = Member(pool), Member(pool), Member(pool)
    sender.hold(1500 * KIB)
    assert other.ask()
    assert waiter.ask()
    sender.held = 0
    await eventually(lambda: not waiter.waits)
    assert pool.used == 0


async def test_who_is_gone_holds_nothing_and_waits_for_nothing() -> None:
    pool = BytePool(1000 * KIB)
    gone, other = Member(pool), Member(pool)
    gone.hold(1500 * KIB)
    assert gone.ask()
    assert other.ask()
    pool.drop(gone)
    assert pool.used == 0
    assert pool.waiting_count == 1
    await eventually(lambda: not other.waits)
    assert gone.waits
    pool.close()


class Asking(Member):
    """It asks again as soon as it may go on, like a connection that is read again."""

    def __init__(self, pool: BytePool) -> None:
        super().__init__(pool)
        self.resumed = 0

    def resume_from_pool(self) -> None:
        self.resumed += 1
        self.hold(self.held)
        self.ask()


async def test_a_small_member_does_not_keep_the_turn() -> None:
    """It stands first in line; those whose half frames fill the pool must get on all the same."""
    pool = BytePool(1000 * KIB)
    large, other, small = Asking(pool), Asking(pool), Asking(pool)
    for member in (large, other):
        member.hold(600 * KIB)
    for member in (small, large, other):
        member.ask()
    await eventually(lambda: large.resumed or other.resumed)
    pool.close()


async def test_a_larger_pool_lets_those_in_line_go_on() -> None:
    pool = BytePool(1000 * KIB)
    holder, first, second = Member(pool), Member(pool), Member(pool)
    holder.hold(2000 * KIB)
    assert first.ask()
    assert second.ask()
    pool.resize(4000 * KIB)
    await eventually(lambda: not first.waits and not second.waits)
    pool.resize(1000 * KIB)
    assert first.ask(), "there is less room again"
    pool.close()

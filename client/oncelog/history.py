"""A recorder notes what a client asked and what it then knew, for checkers of anomalies.

Rules: every operation is invoked once and ended at most once, as *ok* (it happened), *fail* (it
definitely did not) or *info* (nobody knows), which are the words and the meaning of Jepsen's
histories. An operation that is never ended counts as *info*. The recorder must not raise, and must
not keep the lists it is given: they belong to the caller.

A send is one batch of one partition, invoked when it is sent for the first time. A poll is noted
when its records have been handed out, not when they were fetched; with ``async for`` that is when
the next batch begins. Members of a group say besides what they commit, what they are told was
committed, and what they own. :mod:`oncelog.history_events` has a recorder that writes files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from oncelog.errors import is_definite
from oncelog_protocol.types import TopicPartition

MoveReason = Literal["assign", "subscribe", "found", "seek", "reset", "truncated"]
"""It says why reading goes on elsewhere.

*assign*: the partition is new to the consumer; *subscribe*: a rebalance brought it; *found*: the
position that its reset policy, or the group's committed offset, led to; *seek*: the application
said so; *reset*: the position was out of range; *truncated*: records that had been handed out are
gone from the log (KIP-320).
"""

GroupOperation = Literal["commit", "committed"]
"""*commit*: offsets were sent to the coordinator; *committed*: it was asked for them."""

OwnerChange = Literal["assigned", "revoked", "lost"]
"""*assigned*: noted before the first record is handed out; *revoked*: when nothing more will be,
before the coordinator hears so; *lost*: when the member found out that it is one no longer."""


class History(Protocol):
    """A recorder takes a client's operations for a checker; these methods do nothing."""

    def invoke(
        self,
        operation: str,
        topic: str,
        partition: int,
        values: Sequence[bytes | None],
        txn: int = -1,
    ) -> int:
        """Note that ``operation`` ("send" or "poll") begins; returns its number.

        :param txn: the transaction that it is a part of; -1 for none.
        """
        return -1

    def begin_txn(self, transactional_id: str) -> int:
        """Note that a transaction begins; return its number, which its sends name."""
        return -1

    def ending_txn(self, txn: int, commit: bool, winners: Sequence[bytes] = ()) -> None:
        """Note that the end of a transaction is about to be requested for the first time.

        :param winners: of a shared one that is to be committed, by their transactions' names.
        """
        return

    def ok(
        self,
        number: int,
        offsets: Sequence[int | None],
        values: Sequence[bytes | None] = (),
    ) -> None:
        """Note that an operation happened, at these offsets; a poll adds the values that it read.

        A *committed* has the answer for each partition in the order of asking, None where nothing
        is committed. A transaction has no offsets.
        """
        return

    def fail(self, number: int, error: BaseException) -> None:
        """Note that an operation definitely had no effect."""
        return

    def info(self, number: int, error: BaseException) -> None:
        """Note that an operation may or may not have had an effect."""
        return

    def moved(self, topic: str, partition: int, offset: int | None, reason: MoveReason) -> None:
        """Note that the next poll of a partition need not continue the last one.

        :param offset: where it begins; None when that is still to be found out.
        """
        return

    def watermark(
        self,
        topic: str,
        partition: int,
        leader_epoch: int,
        high_watermark: int,
        end_offset: int,
        last_stable_offset: int = -1,
    ) -> None:
        """Note what the leader of ``leader_epoch`` said in a fetch: its high watermark, the offset
        behind the last record that it sent (-1: none was taken), and the offset up to which all is
        decided (-1: it was not asked for, as at read_uncommitted)."""
        return

    def invoke_group(
        self,
        operation: GroupOperation,
        group: str,
        member: str,
        generation: int,
        offsets: Mapping[TopicPartition, int | None],
        txn: int = -1,
    ) -> int:
        """Note that a commit of these offsets, or a question for them (None), begins; returns its
        number. ``member`` and ``generation`` are as the request tells them, "" and -1 for none.

        :param txn: the transaction that commits them, noted by the same recorder; -1 for none.
        """
        return -1

    def owned(
        self,
        how: OwnerChange,
        group: str,
        member: str,
        generation: int,
        partitions: Sequence[TopicPartition],
    ) -> None:
        """Note that a member began or ceased to own these partitions; they may be none."""
        return


class Unrecorded(History):
    """A client without a history tells this one."""


UNRECORDED = Unrecorded()


def note_failure(history: History, number: int, error: BaseException) -> None:
    """End an operation as *fail* if its error is definite, else as *info*."""
    if is_definite(error):
        history.fail(number, error)
    else:
        history.info(number, error)

"""A transaction commits a consumer's positions at its end, and moves them back when it aborts.

Rules
-----
* A consumer that has taken part in a transaction commits nothing by itself any more: an auto commit
  in between would put records behind it whose transaction may still abort.
* A transaction begins before what the application has in hand, so that a record that was handed out
  and then put into a transaction belongs to it; but never before what is committed.
* What the transaction was handed of partitions that were taken away meanwhile is another member's
  now. Its results must not be committed without their positions, so such a transaction cannot be
  committed at all (KIP-447 leaves that to the application).
* Aborted, reading goes on where the transaction began. When nobody knows how it ended, the group is
  asked, which answers when it is decided; where it has nothing, where the transaction began.
"""

from __future__ import annotations

from oncelog.consumer.core import ConsumerCore, Place
from oncelog.consumer.offset_metadata import GroupMetadata, OffsetAndMetadata
from oncelog.consumer.subscription import TopicPartitionState
from oncelog.errors import ApiError, ClosedError, CommitFailedError
from oncelog_protocol.types import TopicPartition


class InTransaction:
    """A consumer takes part in one transaction through this object.

    Its part ends with the first of ``committed``, ``aborted`` and ``unknown``; later calls change
    nothing.

    :raises ClientError: the consumer has no group, is in another transaction, or in ``run``.
    """

    def __init__(self, core: ConsumerCore) -> None:
        self._core = core
        self._group = core.in_group()
        core.boundary.check_free()
        self._begun = self._places()
        self._topic_ids = {state: state.topic_id for state in self._begun}
        if not core.boundary.in_transactions and not self._group.subscribed:
            # Nothing but the producer's start has fenced a predecessor: it may have committed
            # between our asking and that. A member's positions are fenced by its generation.
            states = core.subscription.states.values()
            asked = {s: s.origin for s in states if s.origin and s.origin[0] == s.offset}
            for state in asked:
                self._begun.pop(state, None)
            core.read_on_from_committed(asked)
        core.subscription.keep_departed()
        core.boundary.enter(self)

    def _places(self) -> dict[TopicPartitionState, Place]:
        core = self._core
        reached = core.reader.positions(safe=False)
        safe = core.reader.positions(safe=True)
        begun: dict[TopicPartitionState, Place] = {}
        for tp, item in safe.items():
            known = self._group.commits.known.get(tp)
            if known is not None and item.offset <= known.offset <= reached[tp].offset:
                item = known  # what is in hand is committed already
            begun[core.subscription.states[tp]] = (item.offset, item.leader_epoch)
        return begun

    # ------------------------------------------------------------------------------ the end

    def commits(self) -> tuple[dict[TopicPartition, OffsetAndMetadata], GroupMetadata]:
        """Return the positions that moved, and the member that commits them.

        A position lies behind all that was handed out.

        :raises CommitFailedError: partitions of which this transaction was handed records belong to
            another member by now, or an auto commit from before is still under way and might land
            behind it; it can only be aborted.
        """
        core = self._core
        if self._group.commits.under_way:
            raise CommitFailedError("a commit from before the transaction is still under way")
        offsets = core.reader.positions(safe=False)
        for state in core.subscription.departed or ():
            if state.offset is not None and not self._is_unmoved(state):
                raise CommitFailedError(
                    f"{state.tp} was taken away in the middle of a transaction that was handed"
                    " records of it: abort, and they are read again by whoever has it now"
                )
        for tp, item in list(offsets.items()):
            known = self._group.commits.known.get(tp)  # None: where it began is to be committed
            unmoved = self._is_unmoved(core.subscription.states[tp])
            if unmoved and known is not None and known.offset == item.offset:
                del offsets[tp]
        if not offsets:  # nothing is anybody's to refuse, also before it is a member
            return {}, self._group.commits.identity.asking()
        return offsets, self._group.commits.identity.now(list(offsets))

    def _is_unmoved(self, state: TopicPartitionState) -> bool:
        place = self._begun.get(state, state.origin)
        return place is not None and place[0] == state.offset

    def refused(self, who: GroupMetadata, error: ApiError) -> None:
        """Tell the membership that the coordinator does not take ``who`` for a member."""
        self._group.commits.identity.fenced(who, error.code)

    def committed(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        """Note that the transaction is committed, with these offsets."""
        if self._end():
            self._group.commits.remember(offsets)

    def aborted(self) -> None:
        """Read again from where the transaction began: it is certainly not committed."""
        if not self._end():
            return
        try:
            self._core.running()
        except ClosedError:
            return  # nothing more is read with it, and it has said so itself
        for state in list(self._core.subscription.states.values()):
            place = self._begun.get(state, state.origin)
            same = self._topic_ids.get(state, state.topic_id) == state.topic_id
            if place is not None and state.offset is not None and same:
                self._core.seek(state, *place)

    def unknown(self) -> None:
        """Read on from what the group has committed, once the unknown outcome is settled."""
        if self._end():
            states = self._core.subscription.states.values()
            places = {state: self._begun.get(state, state.origin) for state in states}
            self._core.read_on_from_committed(places)

    def _end(self) -> bool:
        if not self._core.boundary.leave(self):
            return False
        self._core.subscription.forget_departed()
        return not self._core.ended

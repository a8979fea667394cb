"""Committed offsets are sent, asked for, and remembered here.

Rules
-----
* One commit after the other: an older one that is tried again never overtakes a newer one.
* A commit says who the member is, at every attempt anew: a member whose generation has just changed
  tries again in the new one, as long as it still owns what it commits. One that is no member any
  more fails with CommitFailedError, and the membership hears of it.
* Errors that may pass are tried again until the deadline; a commit may be repeated without harm.
* Each attempt is an operation of its own in the history.
* Offsets that an open transaction may still change are not told (KIP-447): they are asked for again
  until they are settled.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from oncelog.consumer.group.coordinator import COMMITS, Coordinator
from oncelog.consumer.offset_metadata import (
    NOT_A_MEMBER,
    GroupMetadata,
    OffsetAndMetadata,
    Offsets,
    left_behind,
)
from oncelog.core.router import Failure, Router
from oncelog.errors import (
    ApiError,
    CommitFailedError,
    DeadlineExceededError,
    InconsistentTopicIdError,
    RebalanceInProgressError,
    UnknownTopicOrPartitionError,
    UnstableOffsetCommitError,
    error_about,
    error_for,
    is_definite,
    is_retriable,
)
from oncelog.history import GroupOperation, note_failure
from oncelog_protocol.acls import READ
from oncelog_protocol.messages.groups import (
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitTopic,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchTopic,
)
from oncelog_protocol.types import TopicPartition

logger = logging.getLogger(__name__)

SPREAD_S = 5.0
"""How long a topic may be unknown to the coordinator: a new one needs a moment to spread."""

Committed = dict[TopicPartition, OffsetAndMetadata | None]


class CommitIdentity:
    """A commit is made under this identity: outside the group, if a consumer assigns itself."""

    def __init__(self, group_id: str, group_instance_id: str | None = None) -> None:
        self.group_id = group_id
        self.group_instance_id = group_instance_id

    def now(self, partitions: Sequence[TopicPartition]) -> GroupMetadata:
        """Return the identity of this commit; raise CommitFailedError when it may not be made."""
        return GroupMetadata(self.group_id)

    def asking(self) -> GroupMetadata:
        """Return the identity under which committed offsets are asked for."""
        return GroupMetadata(self.group_id)

    def fenced(self, who: GroupMetadata, code: int) -> bool:
        """Hear that ``who`` is refused as a member; return whether to try again all the same."""
        return False


class Commits:
    """One consumer's commits to its group go through here."""

    def __init__(
        self,
        router: Router,
        coordinator: Coordinator,
        identity: CommitIdentity,
    ) -> None:
        self.identity = identity
        self.known: Committed = {}
        """What was last acknowledged, or answered, for partitions that are still read."""
        self._router = router
        self._coordinator = coordinator
        self._history = router.history
        self._order = asyncio.Lock()
        self._losses: Counter[TopicPartition] = Counter()
        """How often each partition was taken away: what was read before may be behind by now."""

    def act_as(self, identity: CommitIdentity) -> None:
        """Commit under this identity from now on."""
        self.identity = identity

    def remember(self, offsets: Mapping[TopicPartition, OffsetAndMetadata | None]) -> None:
        """Note committed offsets, as the group has answered or somebody else has seen to."""
        self.known |= offsets

    def drop_known(self, tp: TopicPartition) -> None:
        """Drop the committed offset of a partition whose topic was deleted."""
        self.known.pop(tp, None)

    def forget(self, tp: TopicPartition) -> None:
        """Note that the partition is not read any more.

        If it comes back it is read from what is committed then. Explicit offsets from before are
        not committed after that.
        """
        self.known.pop(tp, None)
        self._losses[tp] += 1

    # ------------------------------------------------------------------------------ commit

    @property
    def under_way(self) -> bool:
        """Return whether a commit is under way."""
        return self._order.locked()

    async def commit(self, offsets: Offsets | Callable[[], Offsets], deadline: float) -> None:
        """Commit these offsets, in the order of the calls. ``deadline`` is in the loop's time.

        :param offsets: a function is called when the commits before are through, and again before
            every attempt: what there is to commit may depend on them.
        :raises CommitFailedError: this consumer may not: it is not the member that it was.
        :raises DeadlineExceededError: not acknowledged in time, and why.
        :raises ApiError: the commit itself is at fault: metadata too large, not authorised.
        """
        losses = {} if callable(offsets) else {tp: self._losses[tp] for tp in offsets}
        try:
            async with asyncio.timeout_at(deadline):
                await self._order.acquire()
        except TimeoutError:
            raise DeadlineExceededError("an earlier commit is still under way") from None
        try:
            left = dict(offsets() if callable(offsets) else offsets)

            async def attempt() -> None:
                if callable(offsets):  # another attempt may have less to commit, or nothing
                    left.clear()
                    left.update(offsets())
                self._check_kept(losses)
                if left:
                    await self._commit_once(left)

            if left:
                await self._counted(self._until(deadline, "commit", attempt))
        finally:
            self._order.release()

    def _check_kept(self, losses: Mapping[TopicPartition, int]) -> None:
        """Refuse a commit of a partition that was lost between two attempts, even if it came back.

        Another member may have committed more of it. The generation is right again, and the older
        offset would move the group back.

        :raises CommitFailedError: a partition was lost.
        """
        for tp, count in losses.items():
            if self._losses[tp] != count:
                raise CommitFailedError(
                    f"{tp} was taken away while its offset was being committed; whoever had it"
                    " since may have committed more"
                )

    async def _counted(self, work: Awaitable[None]) -> None:
        counters, loop = self._router.counters, asyncio.get_running_loop()
        began = loop.time()
        try:
            await work
        except BaseException:
            counters.commit_failed()
            raise
        counters.committed(loop.time() - began)

    async def _commit_once(self, left: dict[TopicPartition, OffsetAndMetadata]) -> None:
        who = self.identity.now(list(left))
        number = self._invoke("commit", who, {tp: item.offset for tp, item in left.items()})
        try:
            response = await self._call(_commit_request(who, left))
            self._raise_for(response, who.group_id)
            failed = _failed(response, left)
        except BaseException as error:
            note_failure(self._history, number, error)
            if isinstance(error, NOT_A_MEMBER):
                self._fenced(who, error)
            raise
        if failed is None:
            self._history.ok(number, ())
        else:
            self._history.info(number, failed.error)  # of some partitions only
        for tp in list(left):
            if failed is None or tp not in failed.partitions:
                self.known[tp] = left.pop(tp)
        if failed is not None:
            raise self._explained(failed.error, failed.tp.topic)

    def _fenced(self, who: GroupMetadata, error: ApiError) -> None:
        if self.identity.fenced(who, error.code):
            raise RebalanceInProgressError("the generation has just changed") from error
        raise left_behind(who, error) from error

    # ------------------------------------------------------------------------------ fetch

    async def fetch(self, partitions: Sequence[TopicPartition], deadline: float) -> Committed:
        """Return the committed offset of each partition; None where there is none. Waits for open
        transactions.

        :raises RebalanceInProgressError: the generation changed; ask again.
        :raises CommitFailedError: this consumer is no member any more.
        :raises DeadlineExceededError: no answer in time, and why.
        """
        found: Committed = {}
        if partitions:
            wanted = dict.fromkeys(partitions)
            await self._until(deadline, "committed", lambda: self._fetch_once(wanted, found))
        return {tp: found[tp] for tp in partitions}

    async def fetch_settled(
        self, partitions: Sequence[TopicPartition], deadline: float
    ) -> Committed:
        """Return the committed offsets that no open transaction may still change.

        They are at least one, if there is one by the deadline. Errors are those of ``fetch``.
        """
        found: Committed = {}
        wanted = dict.fromkeys(partitions)

        async def attempt() -> None:
            try:
                await self._fetch_once(wanted, found)
            except UnstableOffsetCommitError:
                if not found:
                    raise

        if wanted:
            await self._until(deadline, "committed", attempt)
        return found

    async def _fetch_once(self, wanted: dict[TopicPartition, None], found: Committed) -> None:
        """Ask once, and move what is answered from ``wanted`` to ``found``."""
        who = self.identity.asking()
        topics: dict[str, OffsetFetchTopic] = {}
        for topic, partition in wanted:
            topics.setdefault(topic, OffsetFetchTopic(topic, [])).partitions.append(partition)
        request = OffsetFetchRequest(
            who.group_id, list(topics.values()), True, who.member_id, who.generation_id
        )
        number = self._invoke("committed", who, dict.fromkeys(wanted))
        try:
            response: OffsetFetchResponse = await self._call(request)
            self._raise_for(response, who.group_id)
            answers, unstable = self._answers(response)
        except BaseException as error:
            note_failure(self._history, number, error)
            if isinstance(error, NOT_A_MEMBER):
                self._fenced(who, error)
            raise
        asked = list(wanted)
        for tp in asked:
            if tp not in unstable:
                found[tp] = answers.get(tp)
                del wanted[tp]
        if unstable:
            listed = ", ".join(str(tp) for tp in unstable[:5])
            open_still = UnstableOffsetCommitError(f"offsets of {listed} are in a transaction")
            note_failure(self._history, number, open_still)
            raise open_still
        told = [None if (item := found[tp]) is None else item.offset for tp in asked]
        self._history.ok(number, told)

    def _answers(
        self, response: OffsetFetchResponse
    ) -> tuple[dict[TopicPartition, OffsetAndMetadata], list[TopicPartition]]:
        """Return the offsets of an answer and the unsettled partitions; raise any other error."""
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        unstable: list[TopicPartition] = []
        for topic in response.topics:
            for item in topic.partitions:
                tp = TopicPartition(topic.topic, item.partition)
                if item.error_code == UnstableOffsetCommitError.code:
                    unstable.append(tp)
                elif item.error_code:
                    raise self._explained(error_about(tp, item.error_code), topic.topic)
                elif item.offset >= 0:
                    found[tp] = OffsetAndMetadata(
                        item.offset, item.metadata or "", item.leader_epoch, item.topic_id
                    )
        return found, unstable

    # ------------------------------------------------------------------------------ attempts

    async def _call(self, request: Any) -> Any:
        timeout_s = self._router.options.request_timeout_ms / 1000
        return await self._coordinator.call(request, COMMITS, timeout_s)

    def _raise_for(self, response: Any, group_id: str) -> None:
        if response.error_code:
            error = error_for(response.error_code, response.error_message or "")
            raise self._explained(error, group_id)

    def _explained(self, error: ApiError, name: str) -> ApiError:
        return self._router.explained(error, READ, name)

    async def _until(
        self, deadline: float, what: str, attempt: Callable[[], Awaitable[None]]
    ) -> None:
        """Repeat ``attempt`` until the deadline, with growing pauses, while errors may heal."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        pace = self._router.new_backoff(what)
        definite = True
        while True:
            try:
                async with asyncio.timeout_at(max(deadline, loop.time() + 0.001)):
                    await attempt()
                    return
            except Failure as error:
                if not is_retriable(error):
                    raise
                late_s = loop.time() - begun
                gone = isinstance(error, UnknownTopicOrPartitionError | InconsistentTopicIdError)
                if gone and late_s >= SPREAD_S:
                    raise
                definite = definite and is_definite(error)
                pause_s = pace.next_s()
                if loop.time() + pause_s >= deadline:
                    reason = str(error) or "the coordinator did not answer"
                    raise DeadlineExceededError(
                        f"{what} did not succeed in time: {reason:.500}",
                        definite=definite,
                    ) from error
            await asyncio.sleep(pause_s)

    def _invoke(
        self,
        operation: GroupOperation,
        who: GroupMetadata,
        offsets: Mapping[TopicPartition, int | None],
    ) -> int:
        return self._history.invoke_group(
            operation, who.group_id, who.member_id, who.generation_id, offsets
        )


class _Failed:
    """These partitions of a commit were refused."""

    def __init__(self, partitions: dict[TopicPartition, int]) -> None:
        self.partitions = partitions
        self.tp, code = next(iter(partitions.items()))
        for each, its_code in partitions.items():
            if not error_for(its_code).retriable:
                self.tp, code = each, its_code
                break
        self.error = error_about(self.tp, code)


def _commit_request(who: GroupMetadata, offsets: Offsets) -> OffsetCommitRequest:
    topics: dict[tuple[str, str], OffsetCommitTopic] = {}
    for tp, item in offsets.items():
        entry = topics.setdefault(
            (tp.topic, item.topic_id), OffsetCommitTopic(tp.topic, [], item.topic_id)
        )
        entry.partitions.append(
            OffsetCommitPartition(tp.partition, item.offset, item.leader_epoch, item.metadata)
        )
    return OffsetCommitRequest(
        who.group_id,
        who.generation_id,
        who.member_id,
        who.group_instance_id,
        list(topics.values()),
    )


def _failed(response: OffsetCommitResponse, asked: Offsets) -> _Failed | None:
    """Return what was refused. A partition that is missing in the answer counts as not answered."""
    codes = {
        TopicPartition(topic.topic, item.partition): item.error_code
        for topic in response.topics
        for item in topic.partitions
    }
    missing = UnknownTopicOrPartitionError.code
    refused = {tp: code for tp in asked if (code := codes.get(tp, missing))}
    for code in refused.values():
        error = error_for(code)
        if isinstance(error, NOT_A_MEMBER):
            raise error
    return _Failed(refused) if refused else None

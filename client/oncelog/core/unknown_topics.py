"""What one broker does not know of a topic is asked elsewhere, and a likely name is found.

Rules
-----
* A topic that was made a moment ago is known to its leaders and to the controller before it is
  known to everybody. So one broker's word is not enough: the controller and some others are asked
  beside it, and one that knows the topic, or is about to make it, settles the matter. Partitions
  that were added spread in the same way; as they never go away, who knows of most is right.
* A broker that knows of no brokers has heard nothing yet, and its word does not count.
* However many wait for topics that are not there, one asks at a time, and for a while nobody asks
  the same again. Names of all topics are asked for at most every 30 s.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from oncelog.core.cluster import ClusterMetadata
from oncelog.core.denials import or_hidden
from oncelog.errors import OncelogError, UnknownTopicOrPartitionError
from oncelog_protocol.identity import Recognition
from oncelog_protocol.messages.metadata import MetadataRequest, MetadataResponse
from oncelog_protocol.types import INTERNAL_TOPICS

ASKED_MAX = 5
"""So many brokers are asked, the controller first."""

ANSWER_S = 1.0
"""How long their answers are waited for."""

KEPT_S = 1.0
"""How long a verdict holds."""

NAMES_S = 30.0
"""How old the names of all topics may be that suggestions come from."""

VERDICTS_MAX = 100
CANDIDATES_MAX = 1_000
"""Names that a name is compared with: those of about its length, so that it costs milliseconds."""

LENGTHS_APART_MAX = 3


class UnknownTopics:
    """A client remembers here which topics do not exist, and asks by ``call``, best first."""

    def __init__(
        self,
        cluster: ClusterMetadata,
        favoured: Callable[[], list[int]],
        call: Callable[[int, MetadataRequest, float], Awaitable[Any]],
        *,
        auto_create: bool,
        recognition: Callable[[], Recognition],
    ) -> None:
        self._cluster = cluster
        self._favoured = favoured
        self._call = call
        self._auto_create = auto_create
        self._recognition = recognition
        self._one_at_a_time = asyncio.Lock()
        self._verdicts: dict[str, tuple[float, str]] = {}
        self._names: list[str] = []
        self._names_at = float("-inf")
        self._looked_at = float("-inf")
        self._looked_for = ""

    async def look_around(self, topic: str, deadline: float) -> None:
        """Take in what others know of ``topic``; one asks for all who wait meanwhile."""
        loop = asyncio.get_running_loop()
        wanted_at = loop.time()
        async with self._one_at_a_time:
            if self._looked_for == topic and self._looked_at >= wanted_at:
                return
            self._looked_for, self._looked_at = topic, loop.time()
            for answer in await self._ask_around(topic, deadline):
                if any(not each.error_code for each in answer.topics):
                    self._cluster.apply(answer, [topic])

    async def verdict(self, topic: str, deadline: float) -> UnknownTopicOrPartitionError | None:
        """Return the error that ``topic`` does not exist; None when that is not certain.

        After None look at the cluster again. ``deadline`` is in the loop's time.
        """
        loop = asyncio.get_running_loop()
        async with self._one_at_a_time:
            told_at, text = self._verdicts.get(topic, (float("-inf"), ""))
            if loop.time() - told_at < KEPT_S:
                return UnknownTopicOrPartitionError(text)
            if not await self._nobody_knows(topic, deadline):
                self._verdicts.pop(topic, None)
                return None
            near = nearest(topic, await self._all_names(deadline))
            hint = f"; did you mean {near!r}?" if near is not None else ""
            hidden = or_hidden(self._recognition(), topic)
            text = f"topic {topic!r} does not exist{hidden}{hint}"
            if len(self._verdicts) >= VERDICTS_MAX:
                self._verdicts.clear()
            self._verdicts[topic] = (loop.time(), text)
            return UnknownTopicOrPartitionError(text)

    async def _nobody_knows(self, topic: str, deadline: float) -> bool:
        answers = await self._ask_around(topic, deadline)
        for answer in answers:
            codes = [each.error_code for each in answer.topics if each.topic == topic]
            if codes != [UnknownTopicOrPartitionError.code]:
                self._cluster.apply(answer, [topic])
                return False
        return bool(answers)

    async def _ask_around(self, topic: str, deadline: float) -> list[MetadataResponse]:
        """Return what brokers answer whose word counts, the controller's first."""
        cluster, brokers = self._cluster, self._favoured()
        brokers.sort(key=lambda broker_id: broker_id != cluster.controller_id)
        request = MetadataRequest([topic], self._auto_create)
        answers = await asyncio.gather(
            *(self._ask(broker_id, request, deadline) for broker_id in brokers[:ASKED_MAX])
        )
        return [each for each in answers if each and not each.error_code and each.brokers]

    async def _all_names(self, deadline: float) -> list[str]:
        loop = asyncio.get_running_loop()
        if loop.time() - self._names_at >= NAMES_S:
            for broker_id in self._favoured()[:1]:
                answer = await self._ask(broker_id, MetadataRequest(None), deadline)
                if answer is not None and not answer.error_code:
                    self._names_at = loop.time()
                    self._names = [each.topic for each in answer.topics]
        return self._names

    async def _ask(
        self, broker_id: int, request: MetadataRequest, deadline: float
    ) -> MetadataResponse | None:
        """Return what one broker answers, or None when it does not in time; it stays connected."""
        patience = min(deadline, asyncio.get_running_loop().time() + ANSWER_S)
        try:
            async with asyncio.timeout_at(patience):
                answer: MetadataResponse = await self._call(broker_id, request, patience + ANSWER_S)
                self._cluster.check(answer)
        except (OSError, TimeoutError, OncelogError):
            return None
        return answer


def nearest(topic: str, names: Sequence[str]) -> str | None:
    """Return the one of ``names`` that was probably meant, or None if all differ much."""
    usual = [
        name
        for name in names
        if abs(len(name) - len(topic)) <= LENGTHS_APART_MAX
        and (name not in INTERNAL_TOPICS or topic.startswith("__"))
    ]
    if len(usual) > CANDIDATES_MAX:
        usual = [name for name in usual if name[:2] == topic[:2]][:CANDIDATES_MAX]
    found = difflib.get_close_matches(topic, usual, n=1)
    return found[0] if found else None

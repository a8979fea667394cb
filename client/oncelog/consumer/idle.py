"""``consumer.until_idle(seconds)`` is an iteration that ends when no record comes any more.

Rules
-----
* Silence is not the end: a partition is idle when its leader has answered since the last record,
  and had nothing. While a leader cannot be reached, or a group is still sharing out its partitions,
  the iteration goes on; it raises what any other would, and by ``max_block_ms`` it says which
  partitions nobody answers for. An iteration that ends has seen what there was.
* Only waiting counts: not the time that the application takes over a record.
"""

from __future__ import annotations

import asyncio

from oncelog.consumer.core import ConsumerCore
from oncelog.consumer.cursor import Cursor
from oncelog.consumer.subscription import TopicPartitionState
from oncelog.errors import ClientError, DeadlineExceededError

AGAIN_S = 0.1
"""How often is looked again when the time is over and somebody has not answered."""

NAMED_MAX = 5
"""So many partitions are named in an error."""


class Idling:
    """One iteration decides here when it is over: after ``seconds``, a number above zero."""

    def __init__(self, core: ConsumerCore, seconds: float) -> None:
        given: object = seconds
        if isinstance(given, bool) or not isinstance(given, int | float) or not given > 0:
            raise ValueError(f"seconds={seconds!r}: must be a number above 0")
        self._core = core
        self._seconds = seconds

    async def next_cursor(self) -> Cursor | None:
        """Return a cursor with at least one record; None when the iteration is over.

        It is over when there are no more records, or when the consumer is closed.

        :raises DeadlineExceededError: nobody answers for some of the partitions.
        """
        loop = asyncio.get_running_loop()
        begun, wait_s = loop.time(), self._seconds
        before = {state: state.answers for state in self._active()}
        max_block_s = self._core.router.options.max_block_ms / 1000
        while True:
            try:
                async with asyncio.timeout(wait_s) as patience:
                    return await self._core.next_cursor()
            except TimeoutError as error:
                if isinstance(error, ClientError) or not patience.expired():
                    raise  # not our time is up: nothing could be fetched for max_block_ms
            group = self._core.group
            if group is None or group.settled:
                open_ = [state for state in self._active() if not _idle(state, before)]
                if not open_:
                    return None
                if loop.time() - begun >= max(max_block_s, self._seconds):
                    raise DeadlineExceededError(_unanswered(open_, max_block_s))
            wait_s = min(self._seconds, AGAIN_S)

    def _active(self) -> list[TopicPartitionState]:
        states = self._core.subscription.states
        return [state for state in states.values() if not state.paused]


def _idle(state: TopicPartitionState, before: dict[TopicPartitionState, int]) -> bool:
    return not state.has_data and state.answers > before.get(state, 0)


def _unanswered(states: list[TopicPartitionState], seconds: float) -> str:
    names = ", ".join(str(state.tp) for state in states[:NAMED_MAX])
    more = f" and {len(states) - NAMED_MAX} more" if len(states) > NAMED_MAX else ""
    return f"nobody has answered for {names}{more} for {seconds:.0f} s: there may be more to read"

"""A query's progress is published as a consumer group's offsets, so that its lag is shown as any.

Rules
-----
* It is information: the checkpoint is the truth, nothing is read from the group, and a failure to
  publish never fails the query. It is logged, once for each reason.
* A source is not told which query it is for, so two queries over the same topics have one group
  unless they say otherwise. When it stands elsewhere than it was left, that is logged, once.
* What is published is done: the end of the last micro-batch that Spark has noted as done, never of
  one that is planned. The newest counts; what was not published in time is left out.
"""

from __future__ import annotations

import logging
from concurrent.futures import Future
from typing import TYPE_CHECKING

from pyspark_oncelog import connections, questions
from pyspark_oncelog.offsets import LogOffsets, SourcePartition

if TYPE_CHECKING:
    from pyspark_oncelog.options import SourceOptions

logger = logging.getLogger(__name__)

TIMEOUT_MS = 10_000


class Progress:
    """One query's progress is published here. The driver makes it.

    With an empty ``group_id`` it does nothing.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._wait = False
        self._reached: LogOffsets | None = None
        self._published: LogOffsets | None = None
        self._publishing: Future[None] | None = None
        self._told: str = ""
        self._stands: dict[SourcePartition, int] = {}
        """What this query has published last."""
        self._warned = False

    def wait_from_now_on(self) -> None:
        """Let each report wait until it is published: the process may be gone in a moment."""
        self._wait = True

    def reached(self, offsets: LogOffsets) -> None:
        """Everything before ``offsets`` is done."""
        if not self._options.group_id:
            return
        self._reached = offsets
        if self._publishing is not None and self._publishing.done():
            self._publishing = None
        if self._publishing is None and offsets != self._published:
            self._publishing = connections.submit(self._publish())
        if self._wait and self._publishing is not None:
            try:
                self._publishing.result(TIMEOUT_MS / 1000)
            except TimeoutError:
                logger.warning("the query's progress was not published in time")

    async def _publish(self) -> None:
        while self._reached is not None and self._reached != self._published:
            offsets = self._published = self._reached
            try:
                await self._look_for_others()
                await questions.publish(self._options, dict(offsets), TIMEOUT_MS)
                self._stands = dict(offsets)
            except Exception as error:
                self._stands = {}  # nobody knows
                reason = f"{type(error).__name__}: {error}"
                if reason != self._told:
                    logger.warning(
                        "progress of the query is not shown in group %r: %s",
                        self._options.group_id,
                        reason,
                    )
                self._told = reason

    async def _look_for_others(self) -> None:
        """Say once if the group does not stand where this query has left it."""
        if self._warned or not self._stands:
            return
        found = await questions.published(self._options, TIMEOUT_MS)
        moved = [tp for tp, offset in self._stands.items() if found.get(tp, offset) != offset]
        if moved:
            self._warned = True
            logger.warning(
                "another query publishes its progress to group %r as well (%s has moved): its lag"
                " is that of whichever spoke last. Give each query a groupId of its own",
                self._options.group_id,
                moved[0],
            )

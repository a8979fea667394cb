"""A query's progress as offsets of a consumer group, so that its lag shows where all lags show.

Rules
-----
* It is information: the checkpoint is the truth, nothing is read from the group, and a failure to
  publish never fails the query. It is logged, once for each reason.
* What is published is done: the end of the last micro-batch that Spark has noted as done, never of
  one that is planned. The newest counts; what was not published in time is left out.
"""

from __future__ import annotations

import logging
from concurrent.futures import Future
from typing import TYPE_CHECKING

from pyspark_oncelog import connections, questions
from pyspark_oncelog.offsets import LogOffsets

if TYPE_CHECKING:
    from pyspark_oncelog.options import SourceOptions

logger = logging.getLogger(__name__)

TIMEOUT_MS = 10_000


class Progress:
    """Publishes for one query. Made by the driver; with an empty ``group_id`` it does nothing."""

    def __init__(self, options: SourceOptions) -> None:
        self.wait = False
        """Whether to wait until it is published: the process may be gone in a moment."""
        self._options = options
        self._reached: LogOffsets | None = None
        self._published: LogOffsets | None = None
        self._publishing: Future[None] | None = None
        self._told: str = ""

    def reached(self, offsets: LogOffsets) -> None:
        """Everything before ``offsets`` is done."""
        if not self._options.group_id:
            return
        self._reached = offsets
        if self._publishing is not None and self._publishing.done():
            self._publishing = None
        if self._publishing is None and offsets != self._published:
            self._publishing = connections.submit(self._publish())
        if self.wait and self._publishing is not None:
            try:
                self._publishing.result(TIMEOUT_MS / 1000)
            except TimeoutError:
                logger.warning("the query's progress was not published in time")

    async def _publish(self) -> None:
        while self._reached is not None and self._reached != self._published:
            offsets = self._published = self._reached
            try:
                await questions.publish(self._options, dict(offsets), TIMEOUT_MS)
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                if reason != self._told:
                    logger.warning(
                        "progress of the query is not shown in group %r: %s",
                        self._options.group_id,
                        reason,
                    )
                self._told = reason

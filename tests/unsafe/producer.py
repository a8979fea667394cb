"""A producer lacks one of its rules here, for tests that prove that the rule is needed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from oncelog.errors import is_definite
from oncelog.producer.partition_queue import Batch
from oncelog.producer.safeguards import ProducerSafeguards


class LastAnswerCounts(ProducerSafeguards):
    """A batch was not written if its last attempt was not."""

    def attempt_failed(self, batch: Batch, error: BaseException) -> None:
        """Forget the attempts before."""
        batch.attempt_failed(error)
        batch.maybe_written = not is_definite(error)


class GoesOnUnsettled(ProducerSafeguards):
    """The next transaction goes on under the epoch of the last."""

    async def settle(self, init: Callable[[], Awaitable[None]]) -> None:
        """Ask nobody."""


UNSAFE: dict[str, ProducerSafeguards] = {
    "indefinite_stays_indefinite": LastAnswerCounts(),
    "reinit_after_indefinite": GoesOnUnsettled(),
}
"""Rules by the switch that turns them off."""


def without(switch: str) -> ProducerSafeguards:
    """Return the safeguards without one of them."""
    return UNSAFE[switch]

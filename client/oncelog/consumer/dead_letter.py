"""Records that cannot be handled go to the dead letter topic, with the cause in their headers.

Rules
-----
* A dead letter has the key, the value and the headers of the record as they were read, undecoded,
  and behind them ``oncelog-dead-letter-`` headers that name where it came from and why; those of
  an earlier death are replaced.
* It counts when all in-sync replicas have it: only then may the record's offset be committed.
* What an application's error says is cut to a length: a header is no place for a page.
"""

from __future__ import annotations

from oncelog.config import ConnectionOptions, spread
from oncelog.consumer.record import Record, RecordHeaders
from oncelog.errors import UndeliveredRecordsError
from oncelog.producer.producer import Producer
from oncelog_protocol import limits
from oncelog_runtime.clock import WallClock
from oncelog_runtime.entropy import Entropy

PREFIX = "oncelog-dead-letter-"
ERROR_BYTES_MAX = 256
MESSAGE_BYTES_MAX = 1024


class DeadLetters:
    """The dead letters of one topic are written with the connection options of the consumer."""

    def __init__(
        self,
        topic: str,
        options: ConnectionOptions,
        *,
        group_id: str | None,
        clock: WallClock | None,
        entropy: Entropy,
    ) -> None:
        self.topic = topic
        self._group_id = group_id
        self._producer = Producer(
            **spread(options),
            acks="all",
            # The headers come on top of a record that may be as large as one can be: what is too
            # large is for the topic's max_message_bytes to say.
            max_request_size=limits.BATCH_BYTES_MAX,
            clock=clock,
            entropy=entropy,
        )

    async def start(self) -> None:
        """Connect, and raise now, not when it is needed, if the topic cannot be had."""
        await self._producer.start()
        await self._producer.partitions_for(self.topic)

    async def send(self, record: Record, error: BaseException, attempts: int) -> None:
        """Write a dead letter; return when all in-sync replicas have it, else raise."""
        await self._producer.send(
            self.topic,
            record.value,
            key=record.key,
            headers=with_cause(record, error, attempts, self._group_id),
        )

    async def close(self) -> None:
        """Close the producer at once: every send has been waited for, or its record is not done."""
        try:
            await self._producer.close(timeout_ms=0)
        except UndeliveredRecordsError:
            pass  # the handlers of these were cancelled; the records are read again


def with_cause(
    record: Record, error: BaseException, attempts: int, group_id: str | None = None
) -> RecordHeaders:
    """Return the record's headers, and behind them those that tell why it is a dead letter.

    ``topic``, ``partition``, ``offset``, ``timestamp`` (ms since 1970): where it was read;
    ``attempts``: how often the handler was called, 0 when the record could not be decoded;
    ``error``: the class of the last error; ``message``: what it says; ``group``: whose it was.
    """
    kind = type(error)
    name = (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else (f"{kind.__module__}.{kind.__qualname__}")
    )
    causes = {
        "topic": record.topic.encode(),
        "partition": b"%d" % record.partition,
        "offset": b"%d" % record.offset,
        "timestamp": b"%d" % record.timestamp,
        "attempts": b"%d" % attempts,
        "error": cut(name, ERROR_BYTES_MAX),
        "message": cut(_message(error), MESSAGE_BYTES_MAX),
    }
    if group_id is not None:
        causes["group"] = cut(group_id, ERROR_BYTES_MAX)
    own = [item for item in record.headers if not item[0].startswith(PREFIX)]
    return (
        *own[: limits.HEADER_COUNT_MAX - len(causes)],
        *((PREFIX + name, value) for name, value in causes.items()),
    )


def cut(text: str, size_max: int) -> bytes:
    """Encode ``text`` as UTF-8 of at most ``size_max`` bytes, cut between characters."""
    data = text[:size_max].encode("utf-8", "backslashreplace")
    if len(data) <= size_max:
        return data
    return data[:size_max].decode("utf-8", "ignore").encode()


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # an application's __str__ that fails must not cost the dead letter
        return ""

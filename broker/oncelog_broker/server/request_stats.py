"""A broker counts requests per API: begun, answered, given up, errors, latency.

Handlers know nothing of it: a connection counts when it starts a request, and when it is given the
answer. Latencies are measured only once a stopwatch was attached, by whoever shows them.
"""

from __future__ import annotations

from typing import Any

from oncelog_protocol.messages.base import ApiKey
from oncelog_runtime.observe import Histogram, Stopwatch

UNKNOWN_API = -1
"""It stands for an API key that this release does not know: peers must not make up series."""

_WITH_PARTITIONS = frozenset((ApiKey.PRODUCE, ApiKey.FETCH))
"""Their answers may carry errors of single partitions that nobody would see otherwise."""


class ApiStats:
    """It counts requests of one API. Counts only grow."""

    __slots__ = ("_with_partitions", "answered", "dropped", "errors", "key", "latency", "started")

    def __init__(self, key: int) -> None:
        self.key = key
        self.started = 0
        self.answered = 0
        self.dropped = 0
        """So many requests lost their connection before their answer."""
        self.errors: dict[int, int] = {}
        """They stand here by error code."""
        self.latency = Histogram()
        self._with_partitions = key in _WITH_PARTITIONS

    def count_drop(self) -> None:
        """Count a request whose connection was lost before its answer."""
        self.dropped += 1

    @property
    def waiting(self) -> int:
        """Return how many requests are not answered yet."""
        return self.started - self.answered - self.dropped

    @property
    def name(self) -> str:
        """Return the API's name as in the protocol's documents."""
        if self.key == UNKNOWN_API:
            return "Unknown"
        return "".join(word.capitalize() for word in ApiKey(self.key).name.split("_"))

    def count_answer(self, message: Any, latency_s: float | None) -> None:
        """Count a request as answered.

        :param message: the answer, whose errors are counted; None: the request gets none.
        :param latency_s: None: it was not measured.
        """
        self.answered += 1
        if latency_s is not None:
            self.latency.observe(latency_s)
        if message is None:
            return
        code = message.error_code
        if code:
            self.errors[code] = self.errors.get(code, 0) + 1
        elif self._with_partitions:
            for topic in message.topics:
                for partition in topic.partitions:
                    code = partition.error_code
                    if code:
                        self.errors[code] = self.errors.get(code, 0) + 1


class RequestStats:
    """It keeps the statistics of all APIs of one broker."""

    __slots__ = ("_apis", "stopwatch")

    def __init__(self) -> None:
        self.stopwatch: Stopwatch | None = None
        """Latencies are measured with it; None means that they are not."""
        self._apis: dict[int, ApiStats] = {}

    def of(self, api_key: int) -> ApiStats:
        """Return the statistics of one API, known or not."""
        stats = self._apis.get(api_key)
        if stats is None:
            key = api_key if api_key in ApiKey.__members__.values() else UNKNOWN_API
            stats = self._apis.get(key)
            if stats is None:
                stats = self._apis[key] = ApiStats(key)
        return stats

    def count_start(self, api_key: int) -> ApiStats:
        """Count a request as begun; its answer is to be counted with what is returned."""
        stats = self._apis.get(api_key)
        if stats is None:
            stats = self.of(api_key)
        stats.started += 1
        return stats

    def measure_with(self, stopwatch: Stopwatch | None) -> None:
        """Measure the latencies from now on, or no longer with None."""
        self.stopwatch = stopwatch

    def all(self) -> list[ApiStats]:
        """Return those that were ever asked for, by key."""
        return [self._apis[key] for key in sorted(self._apis)]

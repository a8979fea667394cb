"""A record whose handler failed is tried again by these rules. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from oncelog.errors import ConfigurationError
from oncelog_runtime.entropy import Entropy

JITTER = 0.2
"""Each pause is taken from 1 - JITTER to 1 + JITTER times its nominal length."""

ATTEMPTS_MAX = 1_000_000
BACKOFF_MS_MAX = 24 * 3600 * 1000
MULTIPLIER_MAX = 1000.0


@dataclass(frozen=True, slots=True)
class Retry:
    """``Retry(5)`` makes five attempts in all, with pauses of about 0.1, 0.2, 0.4 and 0.8 s.

    :param attempts: how often the handler is called for one record, the first time included.
    :param backoff_ms: the first pause; each further one is ``multiplier`` times as long, up to
        ``backoff_max_ms`` (but not shorter than the first); all with 20 % of jitter.
    :param give_up_on: errors after which another attempt is of no use (a record that is invalid,
        say): they count as the last one.

    :raises ConfigurationError: a value that makes no sense.
    """

    attempts: int = 5
    backoff_ms: int = 100
    backoff_max_ms: int = 10_000
    multiplier: float = 2.0
    give_up_on: tuple[type[BaseException], ...] = ()

    def __post_init__(self) -> None:
        _check("attempts", self.attempts, 1, ATTEMPTS_MAX)
        _check("backoff_ms", self.backoff_ms, 0, BACKOFF_MS_MAX)
        _check("backoff_max_ms", self.backoff_max_ms, 0, BACKOFF_MS_MAX)
        multiplier = self.multiplier
        if isinstance(multiplier, bool) or not 1 <= multiplier <= MULTIPLIER_MAX:
            raise ConfigurationError(f"multiplier={multiplier!r}: must be from 1 to 1000")
        kinds: object = self.give_up_on
        if not isinstance(kinds, tuple) or not all(
            isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds
        ):
            raise ConfigurationError(f"give_up_on={kinds!r}: must be a tuple of exception classes")

    def again(self, attempts: int, error: BaseException) -> bool:
        """Return whether to try again, after ``attempts`` of which the last raised ``error``."""
        return attempts < self.attempts and not isinstance(error, self.give_up_on)

    def pause_s(self, attempts: int, entropy: Entropy) -> float:
        """Return the pause after so many attempts, in seconds."""
        longest = max(self.backoff_max_ms, self.backoff_ms)
        nominal = float(self.backoff_ms)
        for _ in range(attempts - 1):  # not a power: that would overflow after some thousands
            if nominal >= longest or self.multiplier == 1:
                break
            nominal *= self.multiplier
        nominal = min(nominal, longest)
        return nominal / 1000 * (1 - JITTER + 2 * JITTER * entropy.random())


def _check(option: str, value: int, low: int, high: int) -> None:
    if type(value) is not int or not low <= value <= high:
        raise ConfigurationError(
            f"Retry({option}={value!r}): must be an integer from {low} to {high}"
        )


ONCE = Retry(attempts=1)

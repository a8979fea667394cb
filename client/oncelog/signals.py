"""A client that asks for it is closed by SIGINT and SIGTERM, which do not end the program then.

Rules
-----
* The first signal begins the end and gives the signals back to whoever had them: a second one is
  not held up by an end that takes long.
* Signals belong to the main thread of a process; anybody else is told so at once.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

from oncelog.errors import ClientError

STOPS = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """The first SIGINT or SIGTERM calls ``stop`` while this object is held.

    :param loop: it is called there, by the loop; without one, between two instructions of the main
        thread.
    :raises ClientError: this is not the main thread.
    """

    def __init__(
        self, stop: Callable[[], object], loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        self._stop = stop
        self._loop = loop
        self._before: dict[signal.Signals, Any] = {}
        try:
            for number in STOPS:
                before = signal.getsignal(number)
                if loop is None:
                    signal.signal(number, self._interrupted)
                else:
                    loop.add_signal_handler(number, self._came)
                self._before[number] = before
        except (ValueError, RuntimeError, NotImplementedError) as error:
            self.release()
            raise ClientError(
                "signals reach the main thread of a process only, and there its event loop"
            ) from error

    def _interrupted(self, number: int, frame: object) -> None:
        self._came()

    def _came(self) -> None:
        self.release()
        self._stop()

    def release(self) -> None:
        """Give the signals back to the previous handlers. A second call does nothing."""
        before, self._before = self._before, {}
        for number, handler in before.items():
            try:
                if self._loop is not None:
                    self._loop.remove_signal_handler(number)
                signal.signal(number, signal.SIG_DFL if handler is None else handler)
            except (ValueError, RuntimeError):
                pass  # another thread closes the client: the signal does no harm any more

"""A dead man's switch tells a thread whether the event loop that it speaks for still turns.

kazoo pings from a thread of its own, which goes on when the loop hangs: in a disk that does not
answer, in a computation without end. Such a broker would stay registered, and lead, for ever.
So the thread asks the loop at each ping whether it is there, and pings no more once the loop has
not answered for a session time-out. The session then expires, and the broker is deposed.
"""

from __future__ import annotations

from collections.abc import Callable

Post = Callable[[Callable[[], None]], None]
"""Has the loop call a function soon; from any thread."""


class DeadMan:
    """One thread asks it, and one loop answers.

    :param post: to the loop.
    :param patience_s: how long the loop may take to answer.
    :param now_s: a monotonic clock that goes on when the loop does not.
    """

    def __init__(self, post: Post, *, patience_s: float, now_s: Callable[[], float]) -> None:
        self._post = post
        self._patience_s = patience_s
        self._now_s = now_s
        self._asked_s: float | None = None
        """Since when an answer is out; None: none is."""

    def turns(self) -> bool:
        """Return whether the loop has turned lately; if it has, it is asked once more."""
        now_s = self._now_s()
        if self._asked_s is None:
            self._asked_s = now_s
            self._post(self._answer)
            return True
        return now_s - self._asked_s < self._patience_s

    def _answer(self) -> None:
        """Note on the loop that it turns."""
        self._asked_s = None

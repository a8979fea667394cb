"""A test that takes too long must end, whatever it hangs in."""

from __future__ import annotations

import signal


def test_the_error_of_a_test_that_takes_too_long_comes_again() -> None:
    """One error may be swallowed: by asyncio where a callback raises it, or by a library."""
    left_s, again_s = signal.getitimer(signal.ITIMER_REAL)
    assert left_s > 0
    assert 0 < again_s < left_s

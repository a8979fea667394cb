"""Tests with simulated clusters share this."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from simulation.loop import silence


@pytest.fixture
def failed_runs(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """The runs of some tests fail: the exception holds what ran when it was raised, and the record
    of the log holds the exception. Clients that were killed would say in a later test, when a
    collection finds them, that nobody closed them."""
    yield
    caplog.clear()
    with silence():
        gc.collect()

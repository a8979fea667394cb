"""These tests check [I24] over logs with known beginnings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from oncelog_testing.memory.files import MemoryFiles
from simulation import retention_invariants
from simulation.store_view import InvariantViolation
from support.logs import batch, make_log, topic_config


def test_a_log_that_begins_later_is_found() -> None:
    log = make_log(MemoryFiles(), topic_config())
    for _ in range(3):
        log.append_as_leader(batch(b"x"), 0)
    brokers = cast(Any, {1: SimpleNamespace(logs=SimpleNamespace(all=lambda: [log]))})
    retention_invariants.check(brokers)
    log.advance_log_start(2)
    with pytest.raises(InvariantViolation, match="I24.*begins at 2"):
        retention_invariants.check(brokers)

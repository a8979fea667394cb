"""A coordinator of transactions refuses these settings."""

from __future__ import annotations

import pytest

from support.room_settings import transaction_settings


def test_the_defaults_are_kafkas() -> None:
    config = transaction_settings()
    assert config.transaction_max_timeout_ms == 900_000
    assert config.transactional_id_expiration_ms == 604_800_000


@pytest.mark.parametrize(
    "wrong",
    [
        {"transaction_max_timeout_ms": 0},
        {"transactional_id_expiration_ms": 0},
        {"transactional_id_expiration_check_interval_ms": 0},
        {"transaction_wait_ms": -1},
        {"transactional_ids_max": 0},
        {"txn_partitions_max": 0},
        {"shared_txn_writers_max": 0},
        {"shared_txn_partitions_max": 0},
    ],
)
def test_what_cannot_be(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"above zero|room"):
        transaction_settings(**wrong)

"""Settings that cannot be meant are refused."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_broker.coordinator.group.config import GROUP_METADATA_BYTES_MAX
from support.room_settings import group_settings


@pytest.mark.parametrize(
    "settings",
    [
        {"group_min_session_timeout_ms": 0},
        {"group_min_session_timeout_ms": 2, "group_max_session_timeout_ms": 1},
        {"group_max_size": 0},
        {"group_unsaved_max": 0},
        {"group_metadata_bytes_max": 0},
        {"group_metadata_bytes_max": GROUP_METADATA_BYTES_MAX + 1},
        {"group_initial_rebalance_delay_ms": -1},
        {"offset_metadata_max_bytes": -1},
        {"group_new_member_join_timeout_ms": 0},
        {"offsets_retention_ms": 0},
        {"offsets_retention_check_interval_ms": 0},
    ],
)
def test_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        group_settings(**settings)


def test_the_defaults_are_kafkas_where_it_has_them() -> None:
    config = group_settings()
    assert config.offset_metadata_max_bytes == 4096
    assert config.offsets_retention_ms == 7 * 24 * 3_600_000
    assert config.group_max_session_timeout_ms == 30 * 60_000

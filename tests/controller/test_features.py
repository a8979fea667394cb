"""A release keeps out of a cluster that uses what it does not know."""

from __future__ import annotations

import json

import pytest

from oncelog_controller import znodes
from oncelog_controller.features import (
    KNOWN,
    MOVES,
    UnknownFeatureError,
    begin_use,
    check_features,
)
from oncelog_controller.loader import prepare_store
from oncelog_controller.state import ClusterState
from oncelog_controller.znodes import CorruptNodeError
from oncelog_testing.memory.store import MemoryMetadataStore, MemoryZooKeeper


def features(*names: str) -> bytes:
    return json.dumps({"version": 1, "features": dict.fromkeys(names, 1)}).encode()


async def store_with(data: bytes | None) -> MemoryMetadataStore:
    store = MemoryMetadataStore(MemoryZooKeeper())
    await store.start()
    await prepare_store(store)
    if data is not None:
        await store.create(znodes.FEATURES, data)
    return store


@pytest.mark.parametrize(
    "data", [None, features(), features("moves"), features("columns", "moves")]
)
async def test_what_is_known_may_be_in_use(data: bytes | None) -> None:
    store = await store_with(data)
    await check_features(store, {"moves", "columns"})
    await store.close()


async def test_what_is_not_known_keeps_a_release_out() -> None:
    store = await store_with(features("moves", "columns", "shadows"))
    with pytest.raises(UnknownFeatureError, match="uses columns, shadows, which this release"):
        await check_features(store, {"moves"})
    await store.close()


@pytest.mark.parametrize("data", [b"", b"x", b'{"version":1}', b'{"version":1,"features":[]}'])
async def test_what_cannot_be_read_is_not_guessed(data: bytes) -> None:
    store = await store_with(data)
    with pytest.raises(CorruptNodeError, match=znodes.FEATURES):
        await check_features(store, {"moves"})
    await store.close()


async def test_the_first_use_is_written_once() -> None:
    store = await store_with(None)
    cluster = ClusterState(1, 1, 1)
    for feature in (MOVES, "shadows"):
        await store.multi(begin_use(cluster, feature))
        cluster.use_feature(feature)
        assert begin_use(cluster, feature) == []
    data, stat = await store.get(znodes.FEATURES)
    assert znodes.decode_features(data) == [MOVES, "shadows"]
    assert cluster.features == {MOVES, "shadows"}
    assert cluster.features_version == stat.version
    with pytest.raises(UnknownFeatureError):
        await check_features(store)
    assert MOVES in KNOWN
    await store.close()

"""A replica's log is one document, however many answers it takes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from oncelog import Admin, TopicPartition
from oncelog_cli.documents import logs
from oncelog_cli.documents.logs import described_log, segment_file, steps, way_to
from oncelog_protocol.messages.base import ApiKey
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import FakeCluster
from support.log_tellers import Teller

T0 = TopicPartition("t", 0)


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    """The leader's log has 40 offsets, two in a batch and ten in a segment."""
    async with FakeCluster(2) as made:
        (partition,) = made.create_topic("t", 1)
        partition.leader = 1
        made.logs = {1: Teller(40), 2: Teller(38, leads=False)}
        yield made


def make(cluster: FakeCluster) -> Admin:
    return Admin(cluster.bootstrap, entropy=SeededEntropy(1))


async def test_facts_and_lists(cluster: FakeCluster) -> None:
    async with make(cluster) as admin:
        document = (await described_log(admin, T0)).document
        assert (document["topic"], document["partition"], document["broker_id"]) == ("t", 0, 1)
        assert [each["base_offset"] for each in document["segments"]] == [0, 10, 20, 30]
        assert document["epochs"] == [{"leader_epoch": 0, "start_offset": 0}]
        assert (document["batches"], document["index"], document["found"]) == ([], [], None)
        assert document["next_offset"] is None
        document = (await described_log(admin, T0, 2)).document
        assert (document["broker_id"], document["is_leader"]) == (2, False)


async def test_lists_that_take_several_answers(cluster: FakeCluster) -> None:
    cluster.logs[1] = Teller(40, page=3)
    async with make(cluster) as admin:
        document = (await described_log(admin, T0)).document
        assert [each["base_offset"] for each in document["segments"]] == [0, 10, 20, 30]
        assert document["next_offset"] is None
        document = (await described_log(admin, T0, pages_max=1)).document
        assert len(document["segments"]) == 3
        assert document["next_offset"] == 30


async def test_batches_go_on_over_segments(cluster: FakeCluster) -> None:
    async with make(cluster) as admin:
        document = (await described_log(admin, T0, batches_from=4, batches=7)).document
        assert [each["base_offset"] for each in document["batches"]] == list(range(4, 18, 2))
        assert document["next_batch"] == 18
        document = (await described_log(admin, T0, batches_from=30, batches=99)).document
        assert len(document["batches"]) == 5
        assert document["next_batch"] is None


async def test_the_way_to_an_offset(cluster: FakeCluster) -> None:
    async with make(cluster) as admin:
        document = (await described_log(admin, T0, offset=27)).document
    assert document["found"] == {
        "offset": 27,
        "segment": 20,
        "file": "00000000000000000020.log",
        "index_offset": 24,
        "index_position": 200,
        "scanned_batches": 2,
        "batch_base_offset": 26,
        "offset_in_batch": 1,
    }
    assert [each["base_offset"] for each in document["batches"]] == [24, 26]
    assert document["next_batch"] == 28


async def test_more_batches_from_an_offset_on(cluster: FakeCluster) -> None:
    async with make(cluster) as admin:
        document = (await described_log(admin, T0, offset=27, batches=5)).document
    assert [each["base_offset"] for each in document["batches"]] == [24, 26, 28, 30, 32]
    assert document["found"]["scanned_batches"] == 2


async def test_a_way_that_takes_several_answers(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "ASKED_AT_ONCE", 1)
    async with make(cluster) as admin:
        assert (await described_log(admin, T0, offset=27)).document["found"] is not None
        asked = cluster.count(ApiKey.DESCRIBE_LOG)
        monkeypatch.setattr(logs, "PAGES_TO_FIND", 1)
        document = (await described_log(admin, T0, offset=27)).document
    assert (document["found"], asked) == (None, 2)


async def test_an_offset_that_is_not_there(cluster: FakeCluster) -> None:
    async with make(cluster) as admin:
        document = (await described_log(admin, T0, offset=40)).document
    assert (document["found"], document["batches"]) == (None, [])


def test_a_way_without_an_index() -> None:
    segments = [{"base_offset": 5, "next_offset": 9}]
    batches = [{"base_offset": 5, "last_offset": 8}]
    found = way_to(6, segments, [], batches)
    assert found is not None
    assert (found["index_offset"], found["index_position"], found["offset_in_batch"]) == (
        None,
        None,
        1,
    )
    assert way_to(9, segments, [], batches) is None
    assert way_to(6, segments, [], []) is None


def test_a_way_in_words() -> None:
    found = {
        "offset": 27,
        "file": "x.log",
        "index_offset": None,
        "index_position": None,
        "scanned_batches": 2,
        "batch_base_offset": 26,
        "offset_in_batch": 1,
    }
    assert steps(found) == [
        "1 segment by its name: x.log",
        "2 index: no entry at or below it",
        "3 batches scanned: 2",
        "4 offset 27 is the batch's 26 + 1",
    ]


def test_names_of_files_sort_as_offsets_do() -> None:
    assert segment_file(96870) == "00000000000000096870.log"

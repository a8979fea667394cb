"""A partition's directory says to which topic its log belongs, or that it never became one."""

from __future__ import annotations

import pytest

from oncelog_broker.log.checkpoint import PARTITION_META, CheckpointError, encode_document
from oncelog_broker.log.partition_meta import (
    PartitionMeta,
    encode_meta,
    known_meta,
    never_was_a_log,
    read_meta,
)
from oncelog_broker.log.segment import log_sizes
from oncelog_protocol.types import TopicPartition
from oncelog_testing.memory.files import MemoryFiles

TP = TopicPartition("t", 0)
META = PartitionMeta("id", 7, 3)
SEGMENT = f"{30:020d}.log"


def holding(**contents: bytes) -> MemoryFiles:
    """Return a directory with these files; the names stand for their paths."""
    files = MemoryFiles("/d")
    names = {"meta": PARTITION_META, "log": SEGMENT, "index": f"{30:020d}.index"}
    for name, data in contents.items():
        files.open(f"/d/{names[name]}", create=True).append([data])
    return files


def test_what_was_written_is_read() -> None:
    files = holding(meta=encode_meta(TP, META))
    assert read_meta(files, "/d") == known_meta(files, "/d") == META
    before_logs_knew_epochs = holding(meta=encode_document({"topic_id": "id"}))
    assert read_meta(before_logs_knew_epochs, "/d") == PartitionMeta("id", -1, 0)
    before_logs_were_counted = holding(meta=encode_document({"topic_id": "id", "made_epoch": 7}))
    assert read_meta(before_logs_were_counted, "/d") == PartitionMeta("id", 7, 0)


@pytest.mark.parametrize(
    ("other", "outlives"),
    [
        (PartitionMeta("other", 7, 4), True),
        (PartitionMeta("other", 8, 1), True),
        (PartitionMeta("other", 7, 3), False),
        (PartitionMeta("other", 6, 9), False),
        (PartitionMeta("id", 8, 1), False),
        (PartitionMeta("", 8, 1), False),
        (PartitionMeta(), False),
    ],
)
def test_what_was_made_later_for_another_topic_outlives(
    other: PartitionMeta, outlives: bool
) -> None:
    assert META.is_outlived_by(other) is outlives
    assert not META._replace(made_epoch=-1).is_outlived_by(other)
    assert not META._replace(topic_id="").is_outlived_by(other)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(200),
        encode_meta(TP, META)[:-3],
        encode_document({"version": 1}),
        encode_document({"topic_id": "id", "made_epoch": None}),
        encode_document({"topic_id": "id", "made_epoch": "x"}),
        encode_document({"topic_id": "id", "made_number": "x"}),
    ],
)
def test_a_file_that_cannot_be_read_says_nothing(data: bytes) -> None:
    files = holding(meta=data)
    with pytest.raises(CheckpointError, match=PARTITION_META):
        read_meta(files, "/d")
    assert known_meta(files, "/d") == known_meta(holding(), "/d") == PartitionMeta()


def test_a_disk_that_cannot_be_read_is_not_taken_for_a_file_that_is_not_there() -> None:
    files = holding(meta=encode_meta(TP, META))
    files.fail("read", "/d", times=None)
    with pytest.raises(OSError):
        known_meta(files, "/d")


@pytest.mark.parametrize(
    ("contents", "never"),
    [
        ({}, True),
        ({"meta": b""}, True),
        ({"meta": b"", "log": b"", "index": b"x"}, True),
        ({"log": b"x"}, False),
        ({"meta": b"", "log": b"x"}, False),
        ({"meta": encode_meta(TP, META)}, False),
        ({"meta": encode_meta(TP, PartitionMeta()), "log": b""}, True),
    ],
)
def test_what_names_no_topic_and_holds_no_byte_never_was_a_log(
    contents: dict[str, bytes], never: bool
) -> None:
    files = holding(**contents)
    sizes = log_sizes(files, "/d", files.list_dir("/d"))
    assert never_was_a_log(known_meta(files, "/d"), sizes.values()) is never

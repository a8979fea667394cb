"""Checkpoint files: what was written comes back; anything else is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_broker.log import checkpoint
from oncelog_broker.log.checkpoint import CheckpointError
from oncelog_protocol.types import TopicPartition

OFFSETS = {TopicPartition("a.b-c", 0): 7, TopicPartition("a.b-c", 12): 0, TopicPartition("z", 1): 9}


def test_offsets_come_back_sorted() -> None:
    data = checkpoint.encode_offsets(checkpoint.RECOVERY_POINT, OFFSETS)
    assert checkpoint.decode_offsets(checkpoint.RECOVERY_POINT, data) == OFFSETS
    shuffled = dict(reversed(list(OFFSETS.items())))
    assert checkpoint.encode_offsets(checkpoint.RECOVERY_POINT, shuffled) == data


@given(st.lists(st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1)), max_size=20))
def test_epochs_come_back(entries: list[tuple[int, int]]) -> None:
    assert checkpoint.decode_epochs(checkpoint.encode_epochs(entries)) == entries


def test_documents_come_back() -> None:
    document = {"version": 1, "name": "grün", "list": [1, None]}
    assert checkpoint.decode_document("x", checkpoint.encode_document(document)) == document


def test_every_bit_flip_is_noticed() -> None:
    table = checkpoint.encode_offsets(checkpoint.LOG_START, OFFSETS)
    for data, read in (
        (table, lambda data: checkpoint.decode_offsets(checkpoint.LOG_START, data)),
        (checkpoint.encode_epochs([(1, 0), (4, 99)]), checkpoint.decode_epochs),
        (
            checkpoint.encode_document({"cluster_id": "c", "broker_id": 3}),
            lambda data: checkpoint.decode_document("meta.json", data),
        ),
    ):
        good = read(data)
        for position in range(len(data)):
            for bit in range(8):
                flipped = bytearray(data)
                flipped[position] ^= 1 << bit
                try:
                    # White space of JSON may turn into other white space, which says the same.
                    assert read(bytes(flipped)) == good
                except CheckpointError:
                    pass


def test_every_prefix_is_refused() -> None:
    data = checkpoint.encode_offsets(checkpoint.LOG_START, OFFSETS)
    for size in range(len(data)):
        with pytest.raises(CheckpointError):
            checkpoint.decode_offsets(checkpoint.LOG_START, data[:size])


@pytest.mark.parametrize("extra", [b"\n", b"a 0 1\n", b"\0" * 64, b" "])
def test_a_longer_file_is_refused(extra: bytes) -> None:
    data = checkpoint.encode_offsets(checkpoint.LOG_START, OFFSETS)
    with pytest.raises(CheckpointError):
        checkpoint.decode_offsets(checkpoint.LOG_START, data + extra)


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 100, b"{}", b"[]", b"null", b'{"a": 1}', b"[" * 100_000]
)
def test_files_of_nothing_are_refused(data: bytes) -> None:
    with pytest.raises(CheckpointError):
        checkpoint.decode_offsets(checkpoint.LOG_START, data)
    with pytest.raises(CheckpointError):
        checkpoint.decode_document("meta.json", data)


def test_another_kind_is_refused() -> None:
    data = checkpoint.encode_offsets(checkpoint.LOG_START, OFFSETS)
    with pytest.raises(CheckpointError):
        checkpoint.decode_offsets(checkpoint.RECOVERY_POINT, data)


@pytest.mark.parametrize("word", ["-1", "+1", "1_0", "x", "", "٣", str(2**63), "9" * 5000])
def test_numbers_are_digits_only(word: str) -> None:
    try:
        data = checkpoint.encode_table(checkpoint.LEADER_EPOCH, [("1", word)])
    except UnicodeEncodeError:
        return
    with pytest.raises(CheckpointError):
        checkpoint.decode_epochs(data)


@given(st.binary(max_size=200))
def test_no_bytes_make_it_fail_otherwise(data: bytes) -> None:
    for read in (
        lambda: checkpoint.decode_offsets(checkpoint.LOG_START, data),
        lambda: checkpoint.decode_epochs(data),
        lambda: checkpoint.decode_document("x", data),
    ):
        with pytest.raises(CheckpointError):
            read()


def test_rows_of_the_cleaner_come_back() -> None:
    rows = {TopicPartition("b", 1): [(5, 1000), (9, 2000)], TopicPartition("a", 0): [(0, 0)]}
    data = checkpoint.encode_clean(rows)
    assert checkpoint.decode_clean(data) == rows
    assert checkpoint.decode_clean(checkpoint.encode_clean({})) == {}
    with pytest.raises(CheckpointError):
        checkpoint.decode_clean(data[:-3])
    with pytest.raises(CheckpointError):
        checkpoint.decode_clean(data.replace(b"1000", b"100x"))

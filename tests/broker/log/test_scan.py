"""A scan walks over batches, in chunks of any size."""

from __future__ import annotations

import pytest

from oncelog_broker.log.scan import Scan
from oncelog_protocol.records.batch import CorruptBatchError
from oncelog_runtime.files import File
from oncelog_testing.memory.files import MemoryFiles
from support.logs import follower_batches

SPECS = [(0, 1, 0), (1, 200, 0), (201, 3, 1), (204, 1, 1)]


def make_file(data: bytes) -> File:
    file = MemoryFiles("/d").open("/d/a.log", create=True)
    file.append([data])
    return file


@pytest.mark.parametrize("chunk_bytes", [61, 62, 100, 130, 500, 1 << 16])
@pytest.mark.parametrize("verify", [False, True])
def test_every_chunk_size_sees_the_same(chunk_bytes: int, verify: bool) -> None:
    data = bytes(follower_batches(*SPECS))
    file = make_file(data)
    scan = Scan(file, 0, len(data), next_offset=0, verify=verify, chunk_bytes=chunk_bytes)
    found = [(position, header.base_offset) for position, header in scan]
    assert [offset for _, offset in found] == [0, 1, 201, 204]
    assert (scan.position, scan.next_offset) == (len(data), 205)
    # From the middle on, too.
    again = Scan(file, found[2][0], len(data), verify=verify, chunk_bytes=chunk_bytes)
    assert [header.base_offset for _, header in again] == [201, 204]


@pytest.mark.parametrize("verify", [False, True])
def test_every_prefix_holds_up_to_its_last_whole_batch(verify: bool) -> None:
    data = bytes(follower_batches((0, 1, 0), (1, 2, 0)))
    first = len(follower_batches((0, 1, 0)))
    for size in range(len(data) + 1):
        scan = Scan(make_file(data[:size]), 0, size, verify=verify)
        if size in (0, first, len(data)):
            list(scan)
        else:
            with pytest.raises(CorruptBatchError):
                list(scan)
        assert scan.position == (len(data) if size == len(data) else first if size >= first else 0)


def test_only_verifying_sees_a_flipped_body() -> None:
    data = bytearray(follower_batches(*SPECS))
    data[-1] ^= 1
    assert len(list(Scan(make_file(bytes(data)), 0, len(data)))) == 4
    scan = Scan(make_file(bytes(data)), 0, len(data), verify=True)
    with pytest.raises(CorruptBatchError):
        list(scan)
    assert scan.next_offset == 204


def test_offsets_must_continue_where_that_is_asked() -> None:
    data = bytes(follower_batches((5, 1, 0), (7, 1, 0)))
    with pytest.raises(CorruptBatchError):
        list(Scan(make_file(data), 0, len(data)))
    with pytest.raises(CorruptBatchError):
        list(Scan(make_file(data), 0, len(data), next_offset=0))


def test_a_file_shorter_than_claimed() -> None:
    data = bytes(follower_batches(*SPECS))
    for end in (len(data) + 1, len(data) + 10_000):
        with pytest.raises(CorruptBatchError):
            list(Scan(make_file(data), 0, end, verify=True))


def test_nuls_are_no_batches() -> None:
    scan = Scan(make_file(bytes(4096)), 0, 4096)
    with pytest.raises(CorruptBatchError):
        list(scan)

"""Index files as they are found: whole, in part, or not at all."""

from __future__ import annotations

import pytest

from oncelog_broker.log.index_file import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from oncelog_broker.log.index_reading import read_columns, read_summary
from oncelog_broker.log.segment import Segment
from oncelog_testing.memory.files import MemoryFiles
from support.logs import batch, make_log, topic_config


def closed(files: MemoryFiles) -> tuple[Segment, str]:
    log = make_log(files, topic_config(index_interval_bytes=1))
    for _ in range(3):
        log.append_as_leader(batch(), 0)
    segment = log.segments.active
    segment.close()
    return segment, segment.path.removesuffix(".log")


def test_whole_files() -> None:
    files = MemoryFiles()
    segment, prefix = closed(files)
    columns = read_columns(files, prefix)
    assert columns.whole
    assert columns.summary == segment.summary
    assert [block.entries for block in columns.offsets] == [3]
    assert [block.entries for block in columns.times] == [3]
    assert read_summary(files, prefix, segment.size_bytes, 0) == segment.summary


@pytest.mark.parametrize("suffix", [INDEX_SUFFIX, TIME_INDEX_SUFFIX])
def test_one_that_is_gone(suffix: str) -> None:
    files = MemoryFiles()
    segment, prefix = closed(files)
    files.remove(prefix + suffix)
    columns = read_columns(files, prefix)
    assert not columns.whole
    assert (columns.summary is None) == (suffix == INDEX_SUFFIX)
    assert (read_summary(files, prefix, segment.size_bytes, 0) is None) == (suffix == INDEX_SUFFIX)


def test_one_that_is_damaged() -> None:
    files = MemoryFiles()
    _, prefix = closed(files)
    files.corrupt(prefix + INDEX_SUFFIX, 60)
    columns = read_columns(files, prefix)
    assert (columns.whole, columns.offsets, columns.summary) == (False, [], None)


def test_a_summary_of_another_log() -> None:
    files = MemoryFiles()
    segment, prefix = closed(files)
    assert read_summary(files, prefix, segment.size_bytes + 1, 0) is None
    assert read_summary(files, prefix, segment.size_bytes, 100) is None

"""Readers get batches of the formats that they understand, and an error where one begins that they
do not."""

from __future__ import annotations

import pytest

from oncelog_broker.replication.batch_formats import understood
from oncelog_protocol.errors import UnsupportedVersionError
from oncelog_protocol.messages.fetch import ALL_FORMATS, COLUMNS_FORMAT, KAFKA_FORMAT
from oncelog_protocol.records.batch import KAFKA_MAGIC, MAGIC, CorruptBatchError
from oncelog_protocol.records.builder import encode_batch

OURS, KAFKAS = (
    bytes(encode_batch([b"v"], timestamps=0, magic=magic)) for magic in (MAGIC, KAFKA_MAGIC)
)


def test_who_understands_all_gets_all_unread() -> None:
    rubbish = b"no batch at all, " * 8
    assert understood(rubbish, ALL_FORMATS) is rubbish
    assert understood(rubbish, ALL_FORMATS | 4) is rubbish
    assert understood(b"", COLUMNS_FORMAT) == b""


def test_others_get_what_lies_before_what_they_do_not_understand() -> None:
    both = OURS + OURS + KAFKAS + OURS
    assert understood(both, COLUMNS_FORMAT) == OURS + OURS
    assert understood(OURS + OURS, COLUMNS_FORMAT) == OURS + OURS
    assert understood(KAFKAS + OURS, KAFKA_FORMAT) == KAFKAS
    for batches, formats in ((both, KAFKA_FORMAT), (KAFKAS + OURS, COLUMNS_FORMAT), (OURS, 0)):
        with pytest.raises(UnsupportedVersionError, match="offset 0 has magic"):
            understood(batches, formats)


def test_a_header_that_does_not_hold_is_told() -> None:
    with pytest.raises(CorruptBatchError):
        understood(b"no batch at all, " * 8, COLUMNS_FORMAT)

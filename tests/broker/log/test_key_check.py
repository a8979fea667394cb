"""Batches are looked at for keys in steps, and what was found is said when they are appended."""

from __future__ import annotations

import sys

import pytest

from oncelog_broker.log.key_check import KeyCheck
from oncelog_broker.log.validator import begin_key_check, validate_client_batch
from oncelog_protocol.errors import (
    CorruptMessageError,
    InvalidRecordError,
    UnsupportedCompressionTypeError,
)
from oncelog_protocol.records.batch import KAFKA_MAGIC, MAGIC, parse_header
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.compression import Codec
from support.logs import NOW_MS, topic_config

COMPACTED = topic_config(cleanup_policy="compact")


def batch_of(
    keys: list[bytes | None] | None, count: int, codec: Codec = Codec.NONE, magic: int = KAFKA_MAGIC
) -> memoryview:
    values = [b"v"] * count
    batch = encode_batch(values, keys=keys, timestamps=NOW_MS, codec=codec, magic=magic)
    return memoryview(batch)


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_with_keys_is_appended_when_its_check_is_done(codec: Codec) -> None:
    batch = batch_of([b"k"] * 5000, 5000, codec)
    check = begin_key_check(batch, COMPACTED, KAFKA_MAGIC)
    assert check is not None
    steps = 0
    while not check.done:
        check.step(1000)
        steps += 1
    assert steps >= 5
    validate_client_batch(batch, COMPACTED, NOW_MS, magic=KAFKA_MAGIC, keys=check)


def test_the_check_that_was_done_is_not_done_again() -> None:
    batch = batch_of([b"k", None, b"k"], 3)
    check = begin_key_check(batch, COMPACTED, KAFKA_MAGIC)
    assert check is not None
    check.step(100)
    assert check.step(100) == 100  # all is known
    with pytest.raises(InvalidRecordError, match="1 of 3 records have no key") as refused:
        validate_client_batch(batch, COMPACTED, NOW_MS, magic=KAFKA_MAGIC, keys=check)
    assert refused.value.records == [1]


def test_a_check_that_is_not_done_is_ended_before_the_batch_is_appended() -> None:
    batch = batch_of([b"k"] * 50 + [None], 51)
    check = begin_key_check(batch, COMPACTED, KAFKA_MAGIC)
    assert check is not None
    check.step(10)
    assert not check.done
    with pytest.raises(InvalidRecordError):
        validate_client_batch(batch, COMPACTED, NOW_MS, magic=KAFKA_MAGIC, keys=check)


def test_the_check_of_another_batch_does_not_count() -> None:
    good, bad = batch_of([b"k"], 1), batch_of(None, 1)
    check = begin_key_check(good, COMPACTED, KAFKA_MAGIC)
    with pytest.raises(CorruptMessageError, match="another batch"):
        validate_client_batch(bad, COMPACTED, NOW_MS, magic=KAFKA_MAGIC, keys=check)


def test_what_needs_no_check_or_is_refused_anyway_has_none() -> None:
    batch = batch_of([b"k"], 1)
    assert begin_key_check(batch, topic_config(), KAFKA_MAGIC) is None
    assert begin_key_check(batch_of([b"k"], 1, magic=MAGIC), COMPACTED, MAGIC) is None
    assert begin_key_check(batch[:-1], COMPACTED, KAFKA_MAGIC) is None
    small = topic_config(cleanup_policy="compact", max_message_bytes=70)
    assert begin_key_check(batch_of([b"k"] * 9, 9), small, KAFKA_MAGIC) is None


def test_a_body_that_lies_ends_its_check() -> None:
    batch = batch_of([b"k"] * 100, 100, Codec.GZIP)
    batch[-12] ^= 0xFF
    check = KeyCheck(batch, parse_header(batch))
    check.step(10_000)
    assert check.done
    with pytest.raises(InvalidRecordError, match="gzip"):
        check.verdict(parse_header(batch))


def test_a_codec_whose_library_is_missing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = batch_of([b"k"], 1, Codec.ZSTD)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(UnsupportedCompressionTypeError):
        KeyCheck(batch, parse_header(batch)).verdict(parse_header(batch))

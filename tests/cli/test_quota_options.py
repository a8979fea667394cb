"""The owner and the amount of a quota are read from words, which may be refused."""

from __future__ import annotations

import pytest

from oncelog import QuotaEntity
from oncelog_cli.exits import UsageError
from oncelog_cli.quota_options import (
    EntityWords,
    QuotaWords,
    amount_text,
    parse_count,
    parse_size,
    row_of,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("10MiB/s", 10 * 1024**2),
        ("0.5 kib", 512),
        ("2MB", 2_000_000),
        ("1000000", 1_000_000),
        ("7B/s", 7),
        ("0", 0),
        ("1TiB/s", 1024**4),
    ],
)
def test_a_size_is_read(text: str, size: float) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "fast", "-1", "nan", "10 MiB/min", "1e6", "10XB", "1,5MiB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no size"):
        parse_size(text)


def test_a_count_is_read_and_has_no_unit() -> None:
    assert (parse_count("10"), parse_count("0.5/s")) == (10, 0.5)
    for text in ("10MiB", "-1", "inf"):
        with pytest.raises(ValueError, match="is no number"):
            parse_count(text)


@pytest.mark.parametrize(
    ("words", "entity"),
    [
        (EntityWords(user="app"), QuotaEntity("app")),
        (EntityWords(user="User:app", any_client_id=True), QuotaEntity("app", "")),
        (EntityWords(any_user=True, client_id="c"), QuotaEntity("", "c")),
        (EntityWords(address="::ffff:192.0.2.7"), QuotaEntity(None, None, "192.0.2.7")),
        (EntityWords(any_address=True), QuotaEntity(None, None, "")),
    ],
)
def test_an_entity_is_read(words: EntityWords, entity: QuotaEntity) -> None:
    assert words.entity() == entity


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (EntityWords(), "of whom"),
        (EntityWords(user="app", any_user=True), "--user and --any-user"),
        (EntityWords(client_id=""), "--any-client-id is for"),
        (EntityWords(user="app", address="192.0.2.7"), "of no user"),
        (EntityWords(address="example.org"), "is no address"),
    ],
)
def test_what_is_nobody_is_refused(words: EntityWords, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        words.entity()


def test_quotas_are_read_by_their_keys() -> None:
    words = QuotaWords("1KiB", "2KiB/s", "3", "4/s", "0.5", "6")
    assert words.values() == {
        "producer_byte_rate": 1024,
        "consumer_byte_rate": 2048,
        "request_rate": 3,
        "controller_mutation_rate": 4,
        "connection_creation_rate": 0.5,
        "connections": 6,
    }
    with pytest.raises(UsageError, match="how much"):
        QuotaWords().values()
    with pytest.raises(UsageError, match="--requests 'many' is no number"):
        QuotaWords(requests="many").values()


def test_a_quota_is_shown_as_people_write_it() -> None:
    assert amount_text("producer_byte_rate", 10 * 1024**2) == "10.0 MiB/s"
    assert amount_text("request_rate", 0.5) == "0.5/s"
    assert amount_text("connections", 20) == "20"
    assert row_of(QuotaEntity("app", ""), "request_rate", 5.0) == {
        "of": "user app with any client id",
        "user": "app",
        "client_id": "",
        "address": None,
        "key": "request_rate",
        "value": 5.0,
    }

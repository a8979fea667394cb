"""A client is told from others by the versions that it speaks, and by its name."""

from __future__ import annotations

import pytest

from oncelog_broker.kafka.transactional_clients import (
    SPOKEN_SINCE,
    ends_by_epoch,
    ends_by_number,
    refusal_code,
)
from oncelog_broker.kafka.versions import OFFERED
from oncelog_protocol.messages.base import ApiKey

JAVA = "apache-kafka-java"


@pytest.mark.parametrize(
    ("version", "software", "is_newer"),
    [
        (5, (JAVA, "4.1.0"), True),
        (5, (JAVA, "unknown"), True),
        (5, (JAVA, "3.9.1"), False),  # it asks in version 5, and ends in version 4
        (5, (JAVA, "10.0"), True),
        (5, ("kgo", "v1.22.2"), True),
        (5, ("", ""), True),
        (5, ("kafka-python", "3.0.12"), False),
        (4, (JAVA, "4.1.0"), False),
        (4, ("librdkafka", "2.12.1"), False),
    ],
)
def test_who_gives_each_transaction_an_epoch_of_its_own(
    version: int, software: tuple[str, str], is_newer: bool
) -> None:
    assert ends_by_epoch(ApiKey.INIT_PID, version, software) is is_newer


def test_every_version_that_newer_clients_speak_is_offered() -> None:
    for api_key, since in SPOKEN_SINCE.items():
        first, last = OFFERED[api_key]
        assert first <= since <= last
        assert ends_by_epoch(api_key, since, ("", ""))
        assert not ends_by_epoch(api_key, since - 1, ("", ""))


@pytest.mark.parametrize(
    ("api_key", "version", "software", "by_number"),
    [
        (ApiKey.ADD_PARTITIONS_TO_TXN, 3, (JAVA, "4.1.0"), True),
        (ApiKey.ADD_OFFSETS_TO_TXN, 4, ("", ""), True),
        (ApiKey.PRODUCE, 11, ("", ""), True),
        (ApiKey.PRODUCE, 12, ("", ""), False),
        (ApiKey.PRODUCE, 12, ("kafka-python", "3.0.12"), True),
        (ApiKey.END_TXN, 4, (JAVA, "3.9.1"), True),
        (ApiKey.END_TXN, 5, (JAVA, "4.1.0"), False),
        (ApiKey.FETCH, 4, ("", ""), False),
    ],
)
def test_whose_transactions_end_by_number(
    api_key: int, version: int, software: tuple[str, str], by_number: bool
) -> None:
    assert ends_by_number(api_key, version, software) is by_number


@pytest.mark.parametrize(
    ("software", "code"),
    [
        (("librdkafka", "2.0.2"), 53),  # TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        (("confluent-kafka-python", "2.12.1-rdkafka-2.12.1"), 53),
        (("kafka-python", "3.0.12"), 35),  # UNSUPPORTED_VERSION
        (("", ""), 35),
    ],
)
def test_the_error_after_which_a_client_gives_up(software: tuple[str, str], code: int) -> None:
    assert refusal_code(software) == code

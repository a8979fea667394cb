"""Quotas are a state with a version, and whoever counts by them is told of each change."""

from __future__ import annotations

from collections.abc import Sequence

from oncelog_broker.server.known_quotas import KnownQuotas
from oncelog_protocol.quotas import (
    CONNECTIONS,
    PRODUCER_BYTE_RATE,
    REQUEST_RATE,
    Quota,
    QuotaEntity,
)

APP = QuotaEntity("app")
HOST = QuotaEntity(None, None, "10.0.0.1")


class Followed:
    def __init__(self) -> None:
        self.told: list[Sequence[Quota]] = []
        self.quotas = KnownQuotas(self.told.append)


def test_followers_are_told_all_quotas_after_each_change() -> None:
    followed = Followed()
    quotas = followed.quotas
    assert quotas.version == -1
    assert quotas.replace(3, {APP: {PRODUCER_BYTE_RATE: 5, REQUEST_RATE: 1}, HOST: {}})
    assert quotas.change(3, 4, {HOST: {CONNECTIONS: 2}})
    assert quotas.change(4, 5, {APP: {}})
    of_host = Quota(None, None, CONNECTIONS, 2, "10.0.0.1")
    of_app = [Quota("app", None, PRODUCER_BYTE_RATE, 5), Quota("app", None, REQUEST_RATE, 1)]
    assert followed.told == [of_app, [*of_app, of_host], [of_host]]
    assert (quotas.version, quotas.values) == (5, {HOST: {CONNECTIONS: 2}})


def test_a_version_without_a_change_of_quotas_tells_nobody() -> None:
    followed = Followed()
    assert followed.quotas.replace(1, {APP: {PRODUCER_BYTE_RATE: 5}})
    assert followed.quotas.change(1, 2, {})
    assert followed.quotas.replace(3, {APP: {PRODUCER_BYTE_RATE: 5}})
    assert (followed.quotas.version, len(followed.told)) == (3, 1)


def test_what_is_older_changes_nothing_and_a_gap_asks_for_all() -> None:
    followed = Followed()
    quotas = followed.quotas
    assert not quotas.change(0, 1, {APP: {PRODUCER_BYTE_RATE: 1}}), "nothing is known yet"
    assert quotas.replace(4, {APP: {PRODUCER_BYTE_RATE: 5}})
    assert not quotas.replace(4, {})
    assert quotas.change(2, 3, {APP: {}})
    assert not quotas.change(5, 6, {APP: {}})
    assert quotas.values == {APP: {PRODUCER_BYTE_RATE: 5}}
    assert quotas.change(2, 6, {APP: {}}), "it lists all since version 2"
    assert quotas.values == {}

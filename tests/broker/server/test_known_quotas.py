"""Quotas are a state with a version, and whoever counts by them is told of each change."""

from __future__ import annotations

from collections.abc import Mapping

from oncelog_broker.server.known_quotas import KnownQuotas
from oncelog_protocol.quotas import (
    CONNECTIONS,
    PRODUCER_BYTE_RATE,
    REQUEST_RATE,
    QuotaEntity,
)

APP = QuotaEntity("app")
HOST = QuotaEntity(None, None, "10.0.0.1")


class Followed:
    def __init__(self) -> None:
        self.told: list[Mapping[QuotaEntity, Mapping[str, float]]] = []
        self.quotas = KnownQuotas(self.told.append)


def test_followers_are_told_what_has_changed() -> None:
    followed = Followed()
    quotas = followed.quotas
    assert quotas.version == -1
    assert quotas.replace(3, {APP: {PRODUCER_BYTE_RATE: 5, REQUEST_RATE: 1}, HOST: {}})
    assert quotas.change(3, 4, {HOST: {CONNECTIONS: 2}})
    assert quotas.change(4, 5, {APP: {}})
    of_host = {HOST: {CONNECTIONS: 2}}
    of_app = {APP: {PRODUCER_BYTE_RATE: 5, REQUEST_RATE: 1}}
    assert followed.told == [of_app, of_host, {APP: {}}]
    assert (quotas.version, quotas.values) == (5, of_host)
    other = {QuotaEntity(None, "c"): {REQUEST_RATE: 7}}
    assert quotas.replace(6, {**of_app, **other})
    assert followed.told[3:] == [{HOST: {}, **of_app, **other}]
    assert quotas.replace(7, of_app)
    assert followed.told[4:] == [{QuotaEntity(None, "c"): {}}], "what stays is not told again"


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

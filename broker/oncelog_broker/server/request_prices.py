"""This table says what a request costs, in units of work.

A unit stands for some 10 microseconds of a broker's processor. Nothing is measured while a broker
runs: the same requests cost the same, on every machine and in every run of a simulation.
"""

from __future__ import annotations

from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.quotas import NEVER_HELD

PRICE = 7.0
"""A request of an API that is not in the table costs so much."""

KIB_PRICE = 0.05
"""Each KiB of records that is written or read costs so much."""

_PRICES: dict[int, float] = {
    ApiKey.PRODUCE: 11.0,
    ApiKey.FETCH: 13.0,
    ApiKey.METADATA: 8.0,
    ApiKey.DESCRIBE_LOG_DIRS: 8.0,
    ApiKey.DESCRIBE_LOG: 400.0,
    ApiKey.ALTER_CONFIGS: 100.0,
    ApiKey.ELECT_LEADERS: 100.0,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 100.0,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: 100.0,
    ApiKey.BALANCE: 400.0,
    ApiKey.ALTER_BROKER_STATES: 100.0,
    ApiKey.CREATE_TOPICS: 100.0,
    ApiKey.DELETE_TOPICS: 100.0,
    ApiKey.CREATE_PARTITIONS: 100.0,
}
"""The first four were measured, as one request at a time over loopback. A description of a log was
measured without a connection, with half of the batches that it may have. What changes the cluster
keeps the controller, its store and all brokers at work, and costs more than one broker sees."""


def price(api_key: int, payload_bytes: int) -> float:
    """Return what a request with so many bytes of records costs, in units; 0.0 for one that is
    never held."""
    if api_key in NEVER_HELD:
        return 0.0
    return _PRICES.get(api_key, PRICE) + price_of_bytes(payload_bytes)


def price_of_bytes(size: int) -> float:
    """Return what ``size`` bytes of records cost, in units."""
    return size / 1024 * KIB_PRICE

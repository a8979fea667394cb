"""Each request has a price, which depends on nothing but its API and its bytes."""

from __future__ import annotations

import pytest

from oncelog_broker.server.request_prices import PRICE, price, price_of_bytes
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.quotas import NEVER_HELD
from oncelog_protocol.registry import REQUESTS


@pytest.mark.parametrize("api_key", sorted(REQUESTS))
def test_every_request_costs_something_but_those_that_are_never_held(api_key: int) -> None:
    assert (price(api_key, 1 << 20) == 0) == (api_key in NEVER_HELD)


def test_bytes_cost_in_proportion() -> None:
    small, large = price(ApiKey.PRODUCE, 0), price(ApiKey.PRODUCE, 3 << 20)
    assert large - small == pytest.approx(3 * price_of_bytes(1 << 20))


def test_a_change_of_the_cluster_costs_more_than_a_question() -> None:
    assert price(ApiKey.CREATE_TOPICS, 0) > price(ApiKey.METADATA, 0) > PRICE


def test_headers_of_batches_cost_more_than_what_memory_knows() -> None:
    assert price(ApiKey.DESCRIBE_LOG, 0) > 10 * price(ApiKey.DESCRIBE_LOG_DIRS, 0)

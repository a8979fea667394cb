"""Brokers are taken out of service by the admin client, which says what holds them up."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from oncelog import Admin, TopicPartition
from oncelog.admin.broker_states import (
    ACTIVE,
    DECOMMISSIONING,
    DRAINING,
    NOBODY_ELSE,
    NOT_PLANNED,
    BrokerStateChange,
    HeldBack,
)
from oncelog.errors import BrokerIdNotRegisteredError, InvalidRequestError
from oncelog_protocol.messages.broker_states import (
    AlterBrokerStatesRequest,
    AlterBrokerStatesResponse,
    HeldPartition,
    LostPartition,
)
from support.fake_cluster import FakeCluster


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    """Start two brokers."""
    async with FakeCluster(2) as cluster:
        yield cluster


@pytest_asyncio.fixture
async def admin(cluster: FakeCluster) -> AsyncIterator[Admin]:
    """Connect an admin client."""
    async with Admin(cluster.bootstrap) as admin:
        yield admin


async def test_a_broker_out_of_service_and_back(cluster: FakeCluster, admin: Admin) -> None:
    answer = AlterBrokerStatesResponse(since_ms=1234, by="User:me")
    answer.leaders_left, answer.leaders_left_count = [HeldPartition("t", 0, NOBODY_ELSE)], 1
    answer.replicas_left, answer.replicas_left_count = [HeldPartition("t", 1, NOT_PLANNED)], 2
    answer.lost_with_it, answer.lost_with_it_count = [HeldPartition("t", 0)], 3
    cluster.services.left[2] = [answer]
    assert await admin.alter_broker_states(2, DRAINING) == BrokerStateChange(
        *(2, DRAINING, 1234, "User:me"),
        *((HeldBack(TopicPartition("t", 0), NOBODY_ELSE),), 1),
        *((HeldBack(TopicPartition("t", 1), NOT_PLANNED),), 2),
        *((HeldBack(TopicPartition("t", 0)),), 3),
    )
    described = await admin.describe_cluster()
    assert [broker.state for broker in described.brokers] == [ACTIVE, DRAINING]
    cluster.services.left.clear()
    assert (await admin.alter_broker_states(2, ACTIVE)).state == ACTIVE
    assert cluster.services.states[2] == ACTIVE


async def test_what_is_asked_is_sent(cluster: FakeCluster, admin: Admin) -> None:
    lost = [TopicPartition("t", 1)]
    await admin.alter_broker_states(2, DECOMMISSIONING, accept_loss=lost, validate_only=True)
    sent = [each for _, each in cluster.requests if isinstance(each, AlterBrokerStatesRequest)]
    assert sent == [
        AlterBrokerStatesRequest(2, DECOMMISSIONING, [LostPartition("t", 1)], validate_only=True)
    ]
    assert cluster.services.states == {}


async def test_refusals_are_raised_with_their_reason(admin: Admin) -> None:
    with pytest.raises(BrokerIdNotRegisteredError, match="there is no broker 9"):
        await admin.alter_broker_states(9, DRAINING)
    with pytest.raises(InvalidRequestError):
        await admin.alter_broker_states(2, "idle")

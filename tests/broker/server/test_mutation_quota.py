"""Partitions that are created and deleted are counted, and refused while a debt is not paid."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_broker.server.access import CREATE_TOPIC
from oncelog_broker.server.authorizer import AllowAllAuthorizer
from oncelog_broker.server.client_quotas import ClientQuotas
from oncelog_broker.server.handlers.controller_requests import ControllerRequests
from oncelog_broker.server.mutation_quota import MutationQuota
from oncelog_protocol.errors import ThrottlingQuotaExceededError
from oncelog_protocol.messages.admin import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    PartitionGrowth,
    TopicResult,
)
from oncelog_protocol.quotas import CONTROLLER_MUTATION_RATE, QuotaEntity
from support.server import ControllerStub, image_of_two_topics, make_context


class Timed:
    """It has quotas of 10 partitions a second, and a time that a test moves."""

    def __init__(self, rate: float = 10) -> None:
        self.time = 50.0
        self.quotas = ClientQuotas(lambda: self.time)
        self.quotas.take({QuotaEntity("test"): {CONTROLLER_MUTATION_RATE: rate}})
        self.mutations = MutationQuota(self.quotas, image_of_two_topics(), lambda: 3)

    def left_after(self, request: Any) -> float | None:
        context = make_context(internal=False)
        self.mutations.refused(context, request)
        return self.quotas.left(context, CONTROLLER_MUTATION_RATE)


def topic(count: int, assignment: list[list[int]] | None = None) -> CreatableTopic:
    return CreatableTopic(f"new-{count}", count, 1, assignment)


@pytest.mark.parametrize(
    ("request_", "partitions"),
    [
        (CreateTopicsRequest([topic(4)], 1), 4),
        (CreateTopicsRequest([topic(-1)], 1), 3),
        (CreateTopicsRequest([topic(-1, [[1], [2]])], 1), 2),
        (CreateTopicsRequest([topic(4)], 1, validate_only=True), 0),
        (CreatePartitionsRequest([PartitionGrowth("t", 7)], 1), 5),
        (CreatePartitionsRequest([PartitionGrowth("t", 1)], 1), 0),
        (DeleteTopicsRequest(["t", "secret", "unknown"], 1), 3),
    ],
)
def test_partitions_are_counted(request_: Any, partitions: int) -> None:
    assert Timed().left_after(request_) == 10 - partitions


def test_what_comes_while_something_is_left_passes_and_what_comes_later_is_refused() -> None:
    timed = Timed()
    context = make_context(internal=False)
    request = CreateTopicsRequest([topic(8), topic(9), topic(1)], 1)
    assert timed.mutations.refused(context, request) == {2}
    assert context.connection.held_until == pytest.approx(timed.time + 0.7)
    timed.time += 0.8
    assert timed.mutations.refused(context, CreateTopicsRequest([topic(1)], 1)) == set()


def test_a_quota_of_0_refuses_everything() -> None:
    timed = Timed(0)
    context = make_context(internal=False)
    assert timed.mutations.refused(context, DeleteTopicsRequest(["unknown"], 1)) == {0}
    assert context.connection.held_until == timed.time + 30


async def test_what_is_refused_does_not_reach_the_controller() -> None:
    timed = Timed(1)
    controller = ControllerStub(DeleteTopicsResponse(0, [TopicResult("t")]))
    requests = ControllerRequests(controller, AllowAllAuthorizer(), timed.mutations)
    context = make_context(internal=False)
    names = ["/", "t", "secret"]

    def forward(indexes: list[int]) -> DeleteTopicsRequest:
        return DeleteTopicsRequest([names[i] for i in indexes], 1)

    refused = ThrottlingQuotaExceededError.code
    _, results = await requests.topics(context, CREATE_TOPIC, names, forward)
    assert [(r.topic, r.error_code) for r in results] == [("/", 17), ("t", 0), ("secret", refused)]
    assert [request.topics for request in controller.requests] == [["t"]]
    _, results = await requests.topics(context, CREATE_TOPIC, ["t"], lambda _: forward([1]))
    assert [r.error_code for r in results] == [refused]
    assert len(controller.requests) == 1

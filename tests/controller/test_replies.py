"""Refusals are shaped like the answer that was asked for."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_controller.replies import refusal
from oncelog_protocol import schema
from oncelog_protocol.acls import AclBinding, AclBindingFilter
from oncelog_protocol.errors import NotControllerError
from oncelog_protocol.messages import (
    acls,
    admin,
    balance,
    broker_reports,
    broker_states,
    moves,
    quotas,
    replication,
)
from oncelog_protocol.messages.base import Request
from oncelog_protocol.messages.metadata import MetadataRequest
from oncelog_protocol.quotas import QuotaFilter

REQUESTS: list[tuple[Request, int]] = [
    (admin.CreateTopicsRequest([admin.CreatableTopic("t", 1, 1)], 1), 1),
    (admin.DeleteTopicsRequest(["t", "u"], 1), 2),
    (admin.CreatePartitionsRequest([admin.PartitionGrowth("t", 2)], 1), 1),
    (admin.AlterConfigsRequest([admin.ConfigAlteration(2, "t", [])]), 1),
    (admin.ElectLeadersRequest(False, [admin.ElectionTarget("t", 0)]), 1),
    (admin.ElectLeadersRequest(False, None), 0),
    (acls.DescribeAclsRequest(AclBindingFilter()), 0),
    (
        acls.CreateAclsRequest(
            [AclBinding("TOPIC", "LITERAL", "t", "User:a", "*", "READ", "ALLOW")]
        ),
        1,
    ),
    (acls.DeleteAclsRequest([AclBindingFilter(), AclBindingFilter()]), 2),
    (quotas.DescribeQuotasRequest(QuotaFilter()), 0),
    (quotas.AlterQuotasRequest([quotas.QuotaChange("app", None, None, "request_rate", 1.0)]), 1),
    (moves.AlterPartitionReassignmentsRequest([moves.ReassignedPartition("t", 0, [1])]), 1),
    (moves.ListPartitionReassignmentsRequest(), 0),
    (replication.AlterPartitionRequest(1, 1, []), 0),
    (replication.ControlledShutdownRequest(1, 1), 0),
    (balance.BalanceRequest("balance"), 0),
    (broker_states.AlterBrokerStatesRequest(1, "draining"), 0),
    (broker_reports.BrokerReportRequest(1, 1, 1, -1, True), 0),
]


@pytest.mark.parametrize(
    ("request_", "items"), REQUESTS, ids=[type(r).__name__ for r, _ in REQUESTS]
)
def test_a_refusal_has_the_shape_of_the_answer(request_: Request, items: int) -> None:
    response: Any = refusal(request_, NotControllerError.code)
    assert type(response).__name__ == request_.response.__name__
    assert response.error_code == NotControllerError.code
    parts = [
        part
        for name in ("topics", "resources", "partitions", "results", "items")
        for part in getattr(response, name, [])
    ]
    assert [part.error_code for part in parts] == [NotControllerError.code] * items
    schema.encode(response, 0)


def test_what_the_controller_does_not_serve() -> None:
    with pytest.raises(TypeError, match="MetadataRequest"):
        refusal(MetadataRequest(None), NotControllerError.code)

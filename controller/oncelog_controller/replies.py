"""A whole request is refused by an answer that is shaped like the response that was asked for.
Pure."""

from __future__ import annotations

from typing import Any

from oncelog_protocol.errors import NO_ERROR, error_for
from oncelog_protocol.messages import (
    acls,
    admin,
    balance,
    broker_reports,
    broker_states,
    moves,
    quotas,
    replication,
    transactions,
    users,
)
from oncelog_protocol.messages.base import Request

_WITHOUT_ITEMS = (
    acls.DescribeAclsRequest,
    balance.BalanceRequest,
    broker_states.AlterBrokerStatesRequest,
    moves.ListPartitionReassignmentsRequest,
    quotas.DescribeQuotasRequest,
    users.DescribeUsersRequest,
)
"""Their answers begin with an error and its text, and need no more."""

_OF_BROKERS = (
    broker_reports.BrokerReportRequest,
    replication.AlterPartitionRequest,
    replication.ControlledShutdownRequest,
    transactions.AllocateProducerIdsRequest,
)
"""Their answers begin with an error, and have no text."""


def refusal(request: Request, code: int, message: str | None = None) -> Any:
    """Return the response to ``request`` in which everything failed with ``code``."""
    text = message if message is not None or code == NO_ERROR else str(error_for(code))
    answer: Any = request.response
    if isinstance(request, _WITHOUT_ITEMS):
        return answer(code, text)
    if isinstance(request, _OF_BROKERS):
        return answer(code)
    if isinstance(request, admin.CreateTopicsRequest):
        named = [admin.TopicResult(new.topic, code, text) for new in request.topics]
        return admin.CreateTopicsResponse(code, named)
    if isinstance(request, admin.DeleteTopicsRequest):
        return admin.DeleteTopicsResponse(
            code, [admin.TopicResult(name, code, text) for name in request.topics]
        )
    if isinstance(request, admin.CreatePartitionsRequest):
        return admin.CreatePartitionsResponse(
            code, [admin.TopicResult(growth.topic, code, text) for growth in request.topics]
        )
    if isinstance(request, admin.AlterConfigsRequest):
        return admin.AlterConfigsResponse(
            code,
            [
                admin.ConfigResourceResult(each.resource_type, each.resource_name, code, text)
                for each in request.resources
            ],
        )
    if isinstance(request, admin.ElectLeadersRequest):
        return admin.ElectLeadersResponse(
            code,
            [
                admin.ElectionResult(target.topic, target.partition, code, text)
                for target in request.partitions or []
            ],
        )
    if isinstance(request, acls.CreateAclsRequest):
        return acls.CreateAclsResponse(code, [acls.CreatedAcl(code, text) for _ in request.entries])
    if isinstance(request, acls.DeleteAclsRequest):
        return acls.DeleteAclsResponse(
            code, [acls.DeletedAcls(code, text) for _ in request.filters]
        )
    if isinstance(request, users.AlterUsersRequest):
        results = [users.AlteredUser(wish.name, code, text) for wish in request.wishes]
        return users.AlterUsersResponse(code, results)
    if isinstance(request, quotas.AlterQuotasRequest):
        altered = [quotas.AlteredQuota(code, text) for _ in request.changes]
        return quotas.AlterQuotasResponse(code, altered)
    if isinstance(request, moves.AlterPartitionReassignmentsRequest):
        wished = [
            moves.ReassignmentResult(item.topic, item.partition, code, text)
            for item in request.items
        ]
        return moves.AlterPartitionReassignmentsResponse(code, text, items=wished)
    raise TypeError(f"{type(request).__name__} is not served by the controller")

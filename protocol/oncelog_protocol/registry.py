"""Each API key has its request class here, and the versions that this release speaks."""

from __future__ import annotations

from oncelog_protocol.messages import (
    acls,
    admin,
    authentication,
    balance,
    broker_reports,
    broker_states,
    events,
    fetch,
    groups,
    handshake,
    log_description,
    metadata,
    moves,
    offsets,
    produce,
    quotas,
    replication,
    security,
    shared_transactions,
    transaction_admin,
    transactions,
    users,
)
from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.messages.handshake import ApiVersionRange

REQUESTS: dict[int, type[Request]] = {
    cls.api_key: cls
    for cls in (
        produce.ProduceRequest,
        fetch.FetchRequest,
        offsets.ListOffsetsRequest,
        offsets.OffsetForLeaderEpochRequest,
        metadata.MetadataRequest,
        metadata.DescribeClusterRequest,
        events.DescribeEventsRequest,
        log_description.DescribeLogRequest,
        replication.LeaderAndIsrRequest,
        replication.StopReplicaRequest,
        replication.UpdateMetadataRequest,
        replication.AlterPartitionRequest,
        replication.ControlledShutdownRequest,
        broker_reports.BrokerReportRequest,
        security.UpdateSecurityRequest,
        handshake.ApiVersionsRequest,
        authentication.AuthenticateRequest,
        admin.CreateTopicsRequest,
        admin.DeleteTopicsRequest,
        admin.DeleteRecordsRequest,
        admin.CreatePartitionsRequest,
        admin.DescribeConfigsRequest,
        admin.AlterConfigsRequest,
        admin.AlterReplicaLogDirsRequest,
        admin.DescribeLogDirsRequest,
        admin.ElectLeadersRequest,
        moves.AlterPartitionReassignmentsRequest,
        moves.ListPartitionReassignmentsRequest,
        balance.BalanceRequest,
        broker_states.AlterBrokerStatesRequest,
        acls.DescribeAclsRequest,
        acls.CreateAclsRequest,
        acls.DeleteAclsRequest,
        users.DescribeUsersRequest,
        users.AlterUsersRequest,
        quotas.DescribeQuotasRequest,
        quotas.AlterQuotasRequest,
        transactions.InitPidRequest,
        transactions.AllocateProducerIdsRequest,
        transactions.AddPartitionsToTxnRequest,
        transactions.AddOffsetsToTxnRequest,
        transactions.TxnOffsetCommitRequest,
        transactions.EndTxnRequest,
        transactions.WriteTxnMarkersRequest,
        shared_transactions.BeginSharedTxnRequest,
        shared_transactions.JoinTxnRequest,
        shared_transactions.EndSharedTxnRequest,
        transaction_admin.ListTransactionsRequest,
        transaction_admin.DescribeTransactionsRequest,
        transaction_admin.DescribeProducersRequest,
        transaction_admin.AbortTransactionRequest,
        groups.FindCoordinatorRequest,
        groups.JoinGroupRequest,
        groups.SyncGroupRequest,
        groups.HeartbeatRequest,
        groups.LeaveGroupRequest,
        groups.OffsetCommitRequest,
        groups.OffsetFetchRequest,
        groups.DescribeGroupsRequest,
        groups.ListGroupsRequest,
        groups.DeleteGroupsRequest,
        groups.OffsetDeleteRequest,
    )
}


def supported_ranges() -> list[ApiVersionRange]:
    """Return what ApiVersions answers, in order of API key."""
    return [ApiVersionRange(key, *REQUESTS[key].versions) for key in sorted(REQUESTS)]


def negotiate(api: type[Request], offered: dict[int, tuple[int, int]]) -> int | None:
    """Return the highest version of ``api`` that both sides speak, or None."""
    theirs = offered.get(api.api_key)
    if theirs is None:
        return None
    low = max(api.versions[0], theirs[0])
    high = min(api.versions[1], theirs[1])
    return high if low <= high else None


__all__ = ["REQUESTS", "ApiKey", "negotiate", "supported_ranges"]

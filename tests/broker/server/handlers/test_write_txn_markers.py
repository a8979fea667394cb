"""WriteTxnMarkers is handed to the writer, and is for brokers only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from oncelog_broker.server.handlers.write_txn_markers import WriteTxnMarkersHandler
from oncelog_broker.transactions.marker_writer import MarkerWriter
from oncelog_protocol.errors import ClusterAuthorizationFailedError
from oncelog_protocol.messages.transactions import (
    MarkerResult,
    TxnMarker,
    TxnTopic,
    WriteTxnMarkersRequest,
)
from support.cluster import Cluster
from support.server import answer


class Writer:
    def write(
        self, markers: Sequence[TxnMarker], respond: Callable[[list[MarkerResult]], None]
    ) -> None:
        respond([MarkerResult(marker.producer_id) for marker in markers])


def request() -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest([TxnMarker(7, 1, 0, True, [TxnTopic("t", [0])])])


def test_one_result_a_marker() -> None:
    response = answer(WriteTxnMarkersHandler(cast(MarkerWriter, Writer())), request())
    assert [result.producer_id for result in response.markers] == [7]


async def test_clients_end_nothing(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        await cluster.create_topic("t")
        response = await cluster.call(1, request())
        assert response.error_code == ClusterAuthorizationFailedError.code
        assert response.markers == []
        response = await cluster.call(1, request(), listener="internal")
        assert response.markers[0].topics[0].partitions[0].error_code == 0

"""WriteTxnMarkers, v0 and v1, lets a coordinator tell how transactions ended, between brokers only.

Errors: those in ``messages.transactions``, per partition.
"""

from __future__ import annotations

from oncelog_broker.server.request import RequestContext, Respond
from oncelog_broker.transactions.marker_writer import MarkerWriter
from oncelog_protocol.messages.transactions import WriteTxnMarkersRequest, WriteTxnMarkersResponse


class WriteTxnMarkersHandler:
    """It serves WriteTxnMarkers."""

    def __init__(self, writer: MarkerWriter) -> None:
        self._writer = writer

    def handle(
        self,
        context: RequestContext,
        request: WriteTxnMarkersRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Answer when the markers are committed, see ``marker_writer``."""
        self._writer.write(
            request.markers, lambda results: respond(WriteTxnMarkersResponse(0, results))
        )

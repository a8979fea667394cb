"""WriteTxnMarkers, v0: a coordinator tells how transactions ended. Between brokers only.

Errors: those in ``messages.transactions``, per partition.
"""

from __future__ import annotations

from oncelog_broker.server.request import RequestContext, Respond
from oncelog_broker.transactions.marker_writer import MarkerWriter
from oncelog_protocol.messages.transactions import WriteTxnMarkersRequest, WriteTxnMarkersResponse


class WriteTxnMarkersHandler:
    """Serves WriteTxnMarkers."""

    def __init__(self, writer: MarkerWriter) -> None:
        self._writer = writer

    def handle(
        self,
        context: RequestContext,
        request: WriteTxnMarkersRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Answered when the markers are committed, see ``marker_writer``."""
        self._writer.write(
            request.markers, lambda results: respond(WriteTxnMarkersResponse(0, results))
        )

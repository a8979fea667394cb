"""DescribeEvents, v0, tells what has happened at this broker lately.

Whole-request error: CLUSTER_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from oncelog_broker.server.access import SEE_CLUSTER
from oncelog_broker.server.authorizer import Authorizer
from oncelog_broker.server.event_history import EventHistory
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_protocol.errors import NO_ERROR
from oncelog_protocol.messages.events import DescribeEventsRequest, DescribeEventsResponse

COUNT_MAX = 500
CHARS_MAX = 512 * 1024
"""One answer has at most so many events, and about so many characters of their fields."""


class DescribeEventsHandler:
    """It answers from the history of this broker."""

    def __init__(self, history: EventHistory, authorizer: Authorizer) -> None:
        self._history = history
        self._authorizer = authorizer

    def handle(
        self,
        context: RequestContext,
        request: DescribeEventsRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Answer at once, for a principal that may describe the cluster.

        :raises ClusterAuthorizationFailedError: it may not.
        """
        SEE_CLUSTER.demand(self._authorizer, context)
        history = self._history
        begin = request.from_sequence if request.started_ms == history.started_ms else 0
        names = None if request.names is None else frozenset(request.names)
        count = min(max(request.count_max, 1), COUNT_MAX)
        page = history.page(begin, names, count, CHARS_MAX)
        respond(
            DescribeEventsResponse(
                NO_ERROR,
                None,
                history.started_ms,
                page.first_sequence,
                page.next_sequence,
                page.more,
                page.events,
            )
        )

"""These metrics tell of requests, connections and who was refused, as the server's room counts
them."""

from __future__ import annotations

from oncelog_broker.app import Broker
from oncelog_broker.observability import catalogue as c
from oncelog_broker.observability.page import MetricsPage
from oncelog_protocol.errors import error_for


async def collect_requests(broker: Broker, page: MetricsPage) -> None:
    """Add the samples of every API, of every listener and of the audit to ``page``."""
    for stats in broker.dispatcher.stats.all():
        page.add(c.REQUESTS, stats.started, stats.name)
        page.add(c.REQUESTS_PARKED, stats.waiting, stats.name)
        page.add_histogram(c.REQUEST_LATENCY, stats.latency, stats.name)
        for code in sorted(stats.errors):
            page.add(c.REQUEST_ERRORS, stats.errors[code], stats.name, error_for(code).name)
        await page.turn()
    for name, listener in broker.listeners.items():
        counters = listener.counters
        page.add(c.CONNECTIONS, len(listener.connections), name)
        page.add(c.CONNECTIONS_ACCEPTED, counters.accepted, name)
        page.add(c.CONNECTIONS_REFUSED, counters.refused, name)
        page.add(c.CONNECTIONS_THROTTLED, counters.throttled, name)
        page.add(c.CONNECTIONS_UNAUTHENTICATED, listener.newcomer_count(), name)
        page.add(c.CONNECTIONS_CROWDED_OUT, counters.crowded_out, name)
        page.add(c.CONNECTIONS_FOREIGN, counters.foreign, name)
        page.add(c.CONNECTIONS_BROKEN, counters.broken, name)
        page.add(c.CONNECTIONS_IDLE_CLOSED, counters.idle_closed, name)
    for (operation, resource_type), count in sorted(broker.audit.denials.items()):
        page.add(c.DENIALS, count, operation, resource_type)
    for (mechanism, outcome), count in sorted(broker.audit.authentications.items()):
        page.add(c.AUTHENTICATIONS, count, mechanism, outcome)
    pool = broker.pool
    page.add(c.QUEUED_BYTES, pool.used)
    page.add(c.QUEUED_BYTES_MAX, pool.bytes_max)
    page.add(c.QUEUE_FULL, pool.exhausted_count)

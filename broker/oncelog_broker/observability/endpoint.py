"""The endpoint is a broker's HTTP port: ``/metrics``, ``/livez``, ``/readyz``, ``/startupz``.

It is made and started before the broker is, so that its start can be watched, and closed after it
has stopped. It only reads the broker. The measuring (the stopwatch, the event loop's lag, the lag
of groups) is switched on here, and costs nothing where there is no port. Probes are for everybody;
the rest is for those who have the token, if there is one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from oncelog_broker.app import Broker
from oncelog_broker.config import ConfigError
from oncelog_broker.observability import probes
from oncelog_broker.observability.exposition import CONTENT_TYPE, Exposition
from oncelog_broker.observability.metrics_access import MetricsAccess
from oncelog_runtime.audit_file import AuditFile
from oncelog_runtime.http_port import Answerer, HttpPort, answering
from oncelog_runtime.observe import Stopwatch
from oncelog_runtime.structured_logging import get_logger
from oncelog_runtime.tasks import Tasks, TasksClosedError
from oncelog_runtime.turns import TurnWatch

logger = get_logger(__name__)

UNAUTHORIZED = "this wants the token in metrics_token_file: Authorization: Bearer\n"
CHALLENGE = {"www-authenticate": 'Bearer realm="oncelog"'}
PATHS = ("/metrics", "/livez", "/readyz", "/startupz")


class Endpoint:
    """It serves the metrics and probes of one broker. Call ``start`` once and ``close`` once.

    :param stopwatch: what latencies are measured with; it must be finer than a millisecond.
    :param turns: what watches the event loop, where something does.
    :param audit: what writes the lines of the audit, where they have a file.
    :raises ConfigError: the port's certificate or token is of no use.
    """

    def __init__(
        self,
        broker: Broker,
        stopwatch: Stopwatch,
        turns: TurnWatch | None = None,
        audit: AuditFile | None = None,
    ) -> None:
        self._broker = broker
        self._access = MetricsAccess(broker.config, broker.clock)
        self._tasks = Tasks("endpoint")
        answerers = {
            "/": self._for_the_known(self._paths),
            "/metrics": self._for_the_known(self._metrics),
            "/livez": self._probe(probes.live),
            "/readyz": self._probe(partial(probes.ready, broker)),
            "/startupz": self._probe(partial(probes.started, broker)),
        }
        self._http = HttpPort(answering(answerers), self._access.tls)
        self._closing = False
        self.exposition = Exposition(broker, stopwatch, turns, audit)

    @property
    def address(self) -> tuple[str, int]:
        """Return the address on which it listens; it is known from ``start`` on."""
        return self._http.address

    async def start(self) -> None:
        """Listen where the settings say, and begin to measure.

        :raises ConfigError: the port cannot be had.
        """
        config = self._broker.config
        try:
            await self._http.start(config.metrics_host, config.metrics_port or 0)
        except OSError as exc:
            raise ConfigError(
                "metrics_port",
                f"cannot listen on {config.metrics_host}:{config.metrics_port} "
                f"({exc.strerror or exc})",
                "Free the port or choose another; 0 takes a free one",
            ) from exc
        self.exposition.start()
        self._tasks.spawn("metrics files", self._access.run())
        host, port = self.address
        self._broker.observed_at(port)
        logger.info("http_listens", host=host, port=port)

    async def close(self) -> None:
        """Stop measuring and listening; whoever waits for a page is told so."""
        self._closing = True
        await self.exposition.close()
        await self._http.close()
        await self._tasks.close()

    def _for_the_known(self, answer: Answerer) -> Answerer:
        async def checked(request: Request) -> Response:
            if self._access.allows(request.headers.get("authorization", "")):
                return await answer(request)
            host = request.client.host if request.client else "unknown"
            logger.warning("metrics_refused", host=host, path=request.url.path)
            return PlainTextResponse(UNAUTHORIZED, HTTPStatus.UNAUTHORIZED, CHALLENGE)

        return checked

    async def _paths(self, _: Request) -> Response:
        return PlainTextResponse("\n".join((*PATHS, "")))

    async def _metrics(self, _: Request) -> Response:
        try:
            pieces = await self.exposition.scrape()
        except (asyncio.CancelledError, TasksClosedError):
            if not self._closing:
                raise
            status = HTTPStatus.SERVICE_UNAVAILABLE
            return PlainTextResponse("the broker has stopped\n", status)
        return Response(b"".join(pieces), media_type=CONTENT_TYPE)

    def _probe(self, judge: Callable[[], probes.ProbeVerdict]) -> Answerer:
        async def answer(_: Request) -> Response:
            verdict = judge()
            status = HTTPStatus.OK if verdict.ok else HTTPStatus.SERVICE_UNAVAILABLE
            body = json.dumps(probes.document(self._broker, verdict)) + "\n"
            return Response(body, status, media_type="application/json")

        return answer

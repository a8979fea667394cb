"""A link keeps a connection to one broker process, and gathers the evidence that it gives.

Rules
-----
* A process that died is known at once: its connections break and its host refuses new ones. So the
  first reconnect comes without delay, the next ones soon, then ever less often, for ever.
* Only a refusal is evidence. A time-out, a reset or a failed handshake is not, of TLS or of ours.
  Nor is another broker at that address, or one of another cluster: it is told from who is meant,
  and gets nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from oncelog_protocol.connection import ClientConnection
from oncelog_protocol.errors import (
    OncelogError,
    RebootstrapRequiredError,
    SaslAuthenticationFailedError,
)
from oncelog_protocol.identity import UNKNOWN, Identity
from oncelog_protocol.types import NO_BROKER
from oncelog_runtime.channel import RequestChannel
from oncelog_runtime.dialer import PLAIN, Dialer
from oncelog_runtime.structured_logging import get_logger
from oncelog_runtime.tls_errors import TlsError

logger = get_logger(__name__)

RETRY_DELAYS_S = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5)
"""The delays before each further attempt; the last one repeats."""

STEADY_S = 1.0
"""A connection that lived so long starts the delays anew; a shorter one does not, so that a peer
which accepts and drops is not hammered."""


def meant(cluster_id: str, broker_id: int) -> Identity:
    """Return whom a link looks for; nobody in particular where the cluster is not named."""
    return Identity(cluster_id, broker_id) if cluster_id else UNKNOWN


class BrokerLink:
    """It keeps one connection; ``run`` is to be spawned, and cancelled to end it."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str,
        meant: Identity = UNKNOWN,
        own_broker_id: int = NO_BROKER,
        connect_timeout_s: float,
        dialer: Dialer = PLAIN,
        on_up: Callable[[RequestChannel], None],
        on_down: Callable[[], None],
        on_refused: Callable[[], None],
    ) -> None:
        self._host = host
        self._port = port
        self._client_id = client_id
        self._meant = meant
        self._own_broker_id = own_broker_id
        self._astray = ""
        self._connect_timeout_s = connect_timeout_s
        self._dialer = dialer
        self._on_up = on_up
        self._on_down = on_down
        self._on_refused = on_refused
        self._failures = 0

    async def run(self) -> None:
        """Connect, wait until it breaks, connect again."""
        while True:
            try:
                await self._hold()
            except ConnectionRefusedError:
                self._on_refused()
            except (RebootstrapRequiredError, SaslAuthenticationFailedError, TlsError) as error:
                self._led_astray(str(error))
            except (OSError, TimeoutError, OncelogError) as error:
                logger.debug("order_no_connection", host=self._host, port=self._port, error=error)
            delay = RETRY_DELAYS_S[min(self._failures, len(RETRY_DELAYS_S) - 1)]
            self._failures += 1
            if delay:
                await asyncio.sleep(delay)

    def _led_astray(self, found: str) -> None:
        """Say so once, not at every attempt."""
        if found != self._astray:
            self._astray = found
            logger.warning(
                "link_leads_astray",
                broker_id=self._meant.broker_id,
                host=self._host,
                port=self._port,
                error=found,
            )

    async def _hold(self) -> None:
        loop = asyncio.get_running_loop()
        channel = await self._dialer.open(
            self._host,
            self._port,
            ClientConnection(self._client_id, meant=self._meant, own_broker_id=self._own_broker_id),
            connect_timeout_s=self._connect_timeout_s,
        )
        self._astray = ""
        since = loop.time()
        broken: asyncio.Future[None] = loop.create_future()

        def closed(_: BaseException | None) -> None:
            if not broken.done():
                broken.set_result(None)

        channel.on_close.append(closed)
        try:
            self._on_up(channel)
            if not channel.closed:
                await broken
        finally:
            channel.close("the link is over")
            self._on_down()
            if loop.time() - since >= STEADY_S:
                self._failures = 0

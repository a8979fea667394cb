"""A dialer opens the connections of one party, which leaves it how they are opened.

Whoever needs a connection is handed a dialer, and names an address, a machine and a time. Whether
the connection is encrypted, and who this party says that it is, is the dialer's business.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Protocol

from oncelog_runtime.channel import ClientMachine, RequestChannel
from oncelog_runtime.host_names import HostNames
from oncelog_runtime.logs import LogEvent
from oncelog_runtime.tls_contexts import ClientTls, GivenTls
from oncelog_runtime.tls_errors import TlsError

__all__ = ["PLAIN", "AuthenticatingDialer", "Dialer", "Exchange", "PlainDialer", "TlsDialer"]

logger = logging.getLogger(__name__)

AGAIN_S = 10.0
"""After so long it is tried again to begin what could not be begun before a session ends."""
Begin = Callable[[], Awaitable["Exchange"]]


class Dialer(Protocol):
    """It opens channels."""

    async def open(
        self, host: str, port: int, machine: ClientMachine, *, connect_timeout_s: float
    ) -> RequestChannel:
        """Return an open channel on which requests may be sent.

        :param connect_timeout_s: everything before the first request takes at most so long.
        :raises OSError: refused, unreachable, reset. Only ConnectionRefusedError says that nobody
            listens there.
        :raises TimeoutError: nobody answered in time.

        The machine's own errors come out as they are, such as that somebody else was meant.
        """
        ...


class PlainDialer:
    """It encrypts nothing and says of nobody who it is.

    :param names: it knows the addresses of hosts; without it the loop looks them up each time.
    """

    def __init__(self, names: HostNames | None = None) -> None:
        self._names = names

    async def open(
        self, host: str, port: int, machine: ClientMachine, *, connect_timeout_s: float
    ) -> RequestChannel:
        """Connect and shake hands; see :class:`Dialer`."""
        return await RequestChannel.open(
            host, port, machine, connect_timeout_s=connect_timeout_s, names=self._names
        )


class TlsDialer:
    """It opens channels over TLS, to whoever can prove to be the host that is dialled.

    :param is_meant: says whether a peer's certificate, as ``getpeercert`` decodes it, is that of
        the broker with this id; -1 is any. It may raise TlsError.
    :param names: it knows the addresses of hosts; without it the loop looks them up each time.
    """

    def __init__(
        self,
        tls: ClientTls | GivenTls,
        is_meant: Callable[[Mapping[str, Any], int], bool] | None = None,
        *,
        names: HostNames | None = None,
    ) -> None:
        self._tls = tls
        self._is_meant = is_meant
        self._names = names

    def refresh(self) -> bool:
        """Look at the files again; return whether new connections get new ones.

        :raises TlsFilesError: what is there does not load or fit; the old stays in use.
        """
        return self._tls.refresh()

    async def open(
        self, host: str, port: int, machine: ClientMachine, *, connect_timeout_s: float
    ) -> RequestChannel:
        """Connect, agree on TLS and shake hands; see :class:`Dialer`.

        :raises TlsError: the peer does not speak TLS, or is not who was dialled.
        """

        def verify(peer: ssl.SSLObject) -> None:
            if self._is_meant is None:
                return
            if not self._is_meant(peer.getpeercert() or {}, machine.meant_broker_id):
                raise TlsError(
                    f"the certificate of {host}:{port} is not that of broker "
                    f"{machine.meant_broker_id}",
                    "see which broker listens there, and broker_principal",
                )

        return await RequestChannel.open(
            host,
            port,
            machine,
            connect_timeout_s=connect_timeout_s,
            protect=lambda inner, name: self._tls.protect(inner, name, verify),
            names=self._names,
        )


class Exchange(Protocol):
    """This protocol has the shape of ``oncelog_protocol.sasl``'s ``ClientAuthentication``."""

    def start(self) -> Any:
        """Return the first request."""
        ...

    def next(self, response: Any, /) -> Any:
        """Return the request that follows this answer, or None when all is done; raise if this side
        was refused, or does not trust the other."""
        ...

    def again_after_ms(self, chance: float, /) -> int:
        """Return after how many milliseconds to authenticate again; 0: never."""
        ...


class AuthenticatingDialer:
    """It opens channels as another dialer does, and says on each who this party is.

    :param begin: returns a new exchange; it may have to wait for what is shown in it.
    :param chance: draws a number in [0, 1).
    """

    def __init__(
        self,
        dialer: Dialer,
        begin: Begin,
        chance: Callable[[], float],
        *,
        again_s: float = AGAIN_S,
    ) -> None:
        self.dialer = dialer
        self._again_s = again_s
        self._begin = begin
        self._chance = chance

    async def open(
        self, host: str, port: int, machine: ClientMachine, *, connect_timeout_s: float
    ) -> RequestChannel:
        """Connect, shake hands and authenticate; see :class:`Dialer`.

        The exchange is begun when the peer has proved who it is. What it raises comes out as it is.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + connect_timeout_s
        channel = await self.dialer.open(host, port, machine, connect_timeout_s=connect_timeout_s)
        session = _Session(channel, self._begin, self._chance, self._again_s)
        try:
            await session.begin(max(until_s - loop.time(), 0.001))
        except BaseException:
            channel.close("not authenticated")
            raise
        return channel


class _Session:
    """It authenticates on one channel, and again before the session ends (KIP-368)."""

    def __init__(
        self,
        channel: RequestChannel,
        begin: Begin,
        chance: Callable[[], float],
        again_s: float,
    ) -> None:
        self._channel = channel
        self._again_s = again_s
        self._begin = begin
        self._chance = chance
        self._timer: asyncio.TimerHandle | None = None
        self._beginning: asyncio.Task[None] | None = None
        channel.on_close.append(self._closed)

    async def begin(self, timeout_s: float) -> None:
        """Authenticate for the first time.

        :raises TimeoutError: it took longer than ``timeout_s``.
        """
        async with asyncio.timeout(timeout_s):
            exchange = await self._begin()
            request = exchange.start()
            while request is not None:
                reply = await self._channel.call(request, timeout_s=timeout_s)
                request = exchange.next(reply.message)
        self._wait(exchange)

    def _wait(self, exchange: Exchange) -> None:
        delay_ms = exchange.again_after_ms(self._chance())
        if delay_ms:
            self._begin_in(delay_ms / 1000)

    def _begin_in(self, seconds: float) -> None:
        if not self._channel.closed:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._again)

    def _again(self) -> None:
        self._beginning = asyncio.get_running_loop().create_task(self._begin_again())

    async def _begin_again(self) -> None:
        """Show who this is once more. Without anything to show the session goes on to its end, and
        it is tried again: who gives tokens out may be away for a moment."""
        try:
            exchange = await self._begin()
        except Exception as error:
            logger.warning(
                LogEvent("reauthentication_put_off", peer=self._channel.peer, error=error)
            )
            self._begin_in(self._again_s)
            return
        answered = partial(self._answered, exchange)
        self._channel.send(exchange.start(), callback=answered)

    def _answered(self, exchange: Exchange, reply: Any, error: BaseException | None) -> None:
        if error is not None:
            return  # the channel is dead
        try:
            request = exchange.next(reply.message)
        except Exception as exc:
            self._channel.close(f"not authenticated again: {exc}")
            return
        if request is not None:
            self._channel.send(request, callback=partial(self._answered, exchange))
        else:
            self._wait(exchange)

    def _closed(self, _: BaseException | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._beginning is not None:
            self._beginning.cancel()


PLAIN = PlainDialer()
"""It is the dialer of whoever was given none."""

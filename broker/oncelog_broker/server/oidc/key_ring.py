"""A broker keeps the keys of its issuer here, and looks for new ones.

Rules
-----
* The source is asked again and again, and once for an id that no key has, since issuers change
  their keys; but never twice within the source's pause, however many ids somebody makes up [S31].
* What cannot be had or read changes nothing: the keys that there are still serve, and the log has a
  line. Without any key no token is believed.
* Who asks for a key that is not there waits for a fetch that is under way, for a while. Of these
  there are few at a time; who has a key that is there never waits.
"""

from __future__ import annotations

import asyncio

from oncelog_broker.server.oidc.key_source import KeySource
from oncelog_broker.server.oidc.signing_keys import PublicKey, SigningKeys, read_keys
from oncelog_protocol.errors import BrokerNotAvailableError
from oncelog_runtime.structured_logging import get_logger
from oncelog_runtime.tasks import Tasks
from oncelog_runtime.threads import Threads

__all__ = ["KeyRing", "NoSuchKeyError"]

logger = get_logger(__name__)

WAITING_MAX = 32
WAIT_S = 3.0
"""A peer has five seconds in all to say who it is."""


class NoSuchKeyError(Exception):
    """No key of the issuer has this id, or is for this algorithm."""


class KeyRing:
    """It has the keys of one issuer.

    :param threads: documents are read in them.
    """

    def __init__(self, source: KeySource, threads: Threads) -> None:
        self._source = source
        self._threads = threads
        self._tasks = Tasks("token keys")
        self._keys: SigningKeys = {}
        self._document = b""
        self._begun_s = float("-inf")
        self._fetch: asyncio.Task[None] | None = None
        self._failed = False
        self._waiting = 0
        self.failures = 0
        """So many looks at the source have failed."""

    def __len__(self) -> int:
        """Return the number of keys."""
        return len({kid for kid, _ in self._keys})

    async def load(self) -> None:
        """Look for the first time; unlike later, what is wrong comes out.

        :raises OSError, KeySetError: there is no document, or it has no keys.
        """
        self._begun_s = asyncio.get_running_loop().time()
        await self._take(await self._source.read())

    async def run(self) -> None:
        """Look again and again, until cancelled. A look that failed is repeated sooner."""
        try:
            while True:
                wait_s = self._next_in_s()
                if wait_s > 0:
                    await asyncio.sleep(wait_s)
                else:
                    await asyncio.shield(self._look())
        finally:
            await self._tasks.close()

    async def find(self, kid: str, algorithm: str) -> PublicKey:
        """Return the key with this id for this algorithm; look for it if that is due.

        :raises NoSuchKeyError: there is none.
        :raises BrokerNotAvailableError: too many wait for keys that are not there.
        """
        key = self._keys.get((kid, algorithm))
        if key is None:
            await self._news()
            key = self._keys.get((kid, algorithm))
        if key is None:
            why = "no key of the issuer has this kid and algorithm" if self._keys else "no keys yet"
            raise NoSuchKeyError(why)
        return key

    async def _news(self) -> None:
        """Wait for the look that is under way, or is due now; not at all if there is none."""
        if self._fetch is None and self._in_s(self._source.pause_s) > 0:
            return
        if self._waiting >= WAITING_MAX:
            raise BrokerNotAvailableError("too many tokens wait for keys of their issuer")
        self._waiting += 1
        try:
            async with asyncio.timeout(WAIT_S):
                await asyncio.shield(self._look())
        except TimeoutError:
            pass
        finally:
            self._waiting -= 1

    def _next_in_s(self) -> float:
        """Return in how many seconds the source is asked again by itself."""
        source = self._source
        return self._in_s(source.pause_s if self._failed else source.every_s)

    def _in_s(self, after_s: float) -> float:
        return self._begun_s + after_s - asyncio.get_running_loop().time()

    def _look(self) -> asyncio.Task[None]:
        """Return the look that is under way, which begins if there is none."""
        if self._fetch is None:
            self._begun_s = asyncio.get_running_loop().time()
            self._fetch = self._tasks.spawn("look", self._look_once())
        return self._fetch

    async def _look_once(self) -> None:
        try:
            await self._take(await self._source.read())
            self._failed = False
        except Exception as error:
            self._failed = True
            self.failures += 1
            logger.error(
                "token_keys_not_renewed", source=self._source.name, error=error, keys=len(self)
            )
        finally:
            self._fetch = None

    async def _take(self, document: bytes) -> None:
        if document == self._document:
            return
        self._keys = await self._threads.call(read_keys, document)
        self._document = document
        logger.info("token_keys_renewed", source=self._source.name, keys=len(self))

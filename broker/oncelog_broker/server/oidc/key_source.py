"""An issuer's keys come from a source: a file, or a URL that the broker's settings name."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Protocol

from oncelog_broker.server.oidc.signing_keys import KeySetError
from oncelog_runtime.files import Files
from oncelog_runtime.https_get import check_https_url, https_get
from oncelog_runtime.threads import Threads

__all__ = ["KeyFile", "KeySource", "KeyUrl"]

DOCUMENT_BYTES_MAX = 256 * 1024
FETCH_TIMEOUT_S = 5.0
FILE_LOOK_S = 10.0
FETCH_EVERY_S = 600.0
FETCH_PAUSE_S = 30.0
"""A document is fetched at most this often, whoever asks for a key that is not there."""


class KeySource(Protocol):
    """This port has the document with the keys."""

    name: str
    """It says in the log where the document is."""
    every_s: float
    """The document is looked at this often."""
    pause_s: float
    """Two looks are at least this time apart."""

    async def read(self) -> bytes:
        """Return the document as it is now.

        :raises OSError: it is not to be had.
        :raises KeySetError: it is too large.
        """
        ...


class KeyFile:
    """It has the document in a file, which may be replaced at any time."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self.name = path
        self.every_s = self.pause_s = FILE_LOOK_S

    async def read(self) -> bytes:
        """Return what is in the file; see :class:`KeySource`."""
        if self._files.size(self.name) > DOCUMENT_BYTES_MAX:
            raise KeySetError(f"it has more than {DOCUMENT_BYTES_MAX} bytes")
        return await self._files.read_file(self.name)


class KeyUrl:
    """It fetches the document over https.

    :param context: returns the context for the next connection; it verifies chain and name.
    :param threads: a fetch holds one of them for some seconds.
    :raises ValueError: the URL is not one that may be fetched.
    """

    def __init__(
        self,
        url: str,
        context: Callable[[], ssl.SSLContext],
        threads: Threads,
        *,
        timeout_s: float = FETCH_TIMEOUT_S,
    ) -> None:
        check_https_url(url)
        self.name = url
        self.every_s, self.pause_s = FETCH_EVERY_S, FETCH_PAUSE_S
        self._context = context
        self._threads = threads
        self._timeout_s = timeout_s

    async def read(self) -> bytes:
        """Return what the server sends; see :class:`KeySource`."""
        return await self._threads.call(self._fetch)

    def _fetch(self) -> bytes:
        return https_get(
            self.name, self._context(), timeout_s=self._timeout_s, bytes_max=DOCUMENT_BYTES_MAX
        )

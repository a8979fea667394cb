"""Who may see what the HTTP port shows is decided here: by a token, if the settings name its file.

Rules:

- probes are open to everybody; all else wants the token as ``Authorization: Bearer`` (RFC 6750);
- no token is kept, only its digest. Digests are compared, in a time that tells nothing;
- the file is read again every ``LOOK_S``. One that is of no use is told in the log, and the token
  in use stays.
"""

from __future__ import annotations

import asyncio
import hmac
import re
from hashlib import sha256

from oncelog_broker.config import BrokerConfig, ConfigError
from oncelog_broker.security import LOOK_S, metrics_tls, renew_tls
from oncelog_runtime.clock import WallClock
from oncelog_runtime.secret_files import SecretFileError, read_secret
from oncelog_runtime.structured_logging import get_logger
from oncelog_runtime.threads import Threads

logger = get_logger(__name__)

TOKEN_CHARS_MIN = 16
"""A shorter token could be guessed."""

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_BEARER = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +(\S+) *")


class MetricsAccess:
    """It has the files of one HTTP port: those of TLS, and the token.

    :raises ConfigError: the files that the settings name are of no use.
    """

    def __init__(self, config: BrokerConfig, clock: WallClock) -> None:
        self.tls = metrics_tls(config, clock)
        """By this the port speaks TLS; None: it does not."""
        self._token_file = config.metrics_token_file
        try:
            self._digest = None if self._token_file is None else _digest_of(self._token_file)
        except SecretFileError as error:
            remedy = error.remedy[0].upper() + error.remedy[1:]
            raise ConfigError("metrics_token_file", error.cause, remedy) from error
        self._threads = Threads(1, "metrics files")

    def allows(self, authorization: str) -> bool:
        """Return whether a request with this header, "" for none, may see what is not a probe."""
        if self._digest is None:
            return True
        bearer = _BEARER.fullmatch(authorization)
        given = sha256(b"" if bearer is None else bearer[1].encode()).digest()
        return hmac.compare_digest(given, self._digest) and bearer is not None

    async def run(self) -> None:
        """Look at the files every ``LOOK_S``, until cancelled."""
        try:
            while True:
                await asyncio.sleep(LOOK_S)
                await self.look()
        finally:
            self._threads.close()

    async def look(self) -> None:
        """Look at the files once: what is new there holds from now on."""
        if self.tls is not None:
            await renew_tls(self._threads, "metrics", self.tls.refresh, self.tls.days_left)
        if self._token_file is None:
            return
        try:
            digest = await self._threads.call(_digest_of, self._token_file)
        except SecretFileError as error:
            logger.error("metrics_token_refused", error=error)
            return
        if digest != self._digest:
            self._digest = digest
            logger.info("metrics_token_changed")


def _digest_of(path: str) -> bytes:
    """Return the digest of the token in a file.

    :raises SecretFileError: there is none, or it is no good one.
    """
    token = read_secret(path)
    if not _TOKEN.fullmatch(token):
        text = f"the file {path} has characters that no token has"
        raise SecretFileError(text, "write letters, digits and -._~+/ in one line")
    if len(token) < TOKEN_CHARS_MIN:
        text = f"the token in {path} is shorter than {TOKEN_CHARS_MIN} characters"
        raise SecretFileError(text, "write a longer one: openssl rand -hex 32")
    return sha256(token.encode()).digest()

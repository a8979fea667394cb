"""A secured dialer opens connections over TLS, by files that may be replaced at any time.

Rule: files are looked at for each connection. New ones that load and fit replace the old; when
others are there, a line in the log says so, and the old stay in use.
"""

from __future__ import annotations

import logging

from oncelog_runtime.channel import ClientMachine, RequestChannel
from oncelog_runtime.clock import WallClock
from oncelog_runtime.dialer import TlsDialer
from oncelog_runtime.host_names import HostNames
from oncelog_runtime.secret_files import SecretFileError, read_secret
from oncelog_runtime.tls_contexts import ClientTls, TlsFiles, TlsFilesError

logger = logging.getLogger(__name__)


class TlsSource:
    """It has the context for the next connection, from files as they are now."""

    def __init__(
        self,
        *,
        ca_file: str | None,
        certificate_file: str | None,
        key_file: str | None,
        key_password_file: str | None,
        server_name: str | None,
        wall_clock: WallClock,
        names: HostNames | None = None,
    ) -> None:
        self._paths = {
            "ca_file": ca_file,
            "certificate_file": certificate_file,
            "key_file": key_file,
        }
        self._key_password_file = key_password_file
        self._server_name = server_name
        self._wall_clock = wall_clock
        self._names = names
        self._files: TlsFiles | None = None
        self._dialer: TlsDialer | None = None

    def dialer(self) -> TlsDialer:
        """Return what opens the next connection.

        :raises TlsFilesError: the files do not load or fit, and never did.
        """
        try:
            self._look()
        except TlsFilesError as error:
            if self._dialer is None:
                raise
            logger.error("files of TLS cannot be used, the former ones still are: %s", error)
        assert self._dialer is not None
        return self._dialer

    def _look(self) -> None:
        files = TlsFiles(min_version="1.2", key_password=self._key_password(), **self._paths)
        if self._dialer is not None and files == self._files:
            self._dialer.refresh()
            return
        tls = ClientTls(files, self._wall_clock, server_name=self._server_name)
        self._dialer, self._files = TlsDialer(tls, names=self._names), files

    def _key_password(self) -> str | None:
        if self._key_password_file is None:
            return None
        try:
            return read_secret(self._key_password_file)
        except SecretFileError as error:
            raise TlsFilesError(error.cause, error.remedy) from error


class SecuredDialer:
    """It opens connections over TLS."""

    def __init__(self, tls: TlsSource) -> None:
        self._tls = tls

    async def open(
        self, host: str, port: int, machine: ClientMachine, *, connect_timeout_s: float
    ) -> RequestChannel:
        """Connect, agree on TLS and shake hands, all in that time.

        :raises TlsError: of ``oncelog_runtime.tls_errors``: no TLS was agreed upon.
        """
        dialer = self._tls.dialer()
        return await dialer.open(host, port, machine, connect_timeout_s=connect_timeout_s)

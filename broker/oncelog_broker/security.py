"""The settings of security become the objects that listeners and dialers are given.

Files of TLS are looked at every ``LOOK_S``, and when somebody asks for it: new connections get
what has been renewed, and those of peers whose certificates have expired or been revoked end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from oncelog_broker.config import BrokerConfig, ConfigError, ListenerConfig
from oncelog_broker.server.listener import Listener
from oncelog_broker.server.listener_security import OPEN, ListenerSecurity
from oncelog_protocol.sasl.client_authentication import ClientAuthentication, MechanismClient
from oncelog_protocol.sasl.credential import KeptKeys, Mechanism
from oncelog_protocol.sasl.plain import PlainClient
from oncelog_protocol.sasl.scram_client import ScramClient
from oncelog_protocol.sasl.scram_messages import NONCE_BYTES
from oncelog_protocol.types import NO_BROKER
from oncelog_runtime.certificates import principal_of
from oncelog_runtime.clock import WallClock
from oncelog_runtime.dialer import AuthenticatingDialer, Dialer, PlainDialer, TlsDialer
from oncelog_runtime.entropy import Entropy
from oncelog_runtime.host_names import HostNames
from oncelog_runtime.secret_files import SecretFileError, check_private, read_secret
from oncelog_runtime.structured_logging import get_logger
from oncelog_runtime.threads import Threads
from oncelog_runtime.tls_contexts import ClientTls, ServerTls, TlsFiles, TlsFilesError

logger = get_logger(__name__)

LOOK_S = 10.0
"""Files of TLS are looked at this often."""


def listener_security(config: BrokerConfig, name: str, clock: WallClock) -> ListenerSecurity:
    """Return the rules of a listener.

    :raises ConfigError: its files do not make a context.
    """
    listener = config.listener(name)
    sasl = tuple(Mechanism(each) for each in listener.sasl_mechanisms)
    if listener.tls_certificate_file is None:
        if not sasl:
            return OPEN
        return ListenerSecurity(
            proves_peers=True, broker_principal=config.broker_principal, sasl=sasl
        )
    between_brokers = name in config.broker_listeners
    try:
        files = _files(listener, "1.3" if between_brokers else listener.tls_min_version)
        tls = ServerTls(files, listener.tls_client_auth, clock)
    except (TlsFilesError, SecretFileError) as error:
        raise _mistake(config, name, error) from error
    return ListenerSecurity(
        tls,
        listener.tls_principal,
        listener.tls_client_auth == "required" or bool(sasl),
        config.broker_principal,
        sasl,
    )


def metrics_tls(config: BrokerConfig, clock: WallClock) -> ServerTls | None:
    """Return what the HTTP port speaks TLS by, None for a port without.

    :raises ConfigError: its files do not make a context.
    """
    certificate, key = config.metrics_tls_certificate_file, config.metrics_tls_key_file
    if certificate is None or key is None:
        return None
    try:
        files = TlsFiles(
            min_version=config.metrics_tls_min_version,
            certificate_file=certificate,
            key_file=private("metrics", key),
            key_password=_password(config.metrics_tls_key_password_file),
        )
        return ServerTls(files, "none", clock)
    except (TlsFilesError, SecretFileError) as error:
        raise refused("metrics_tls_certificate_file", error) from error


def inter_broker_dialer(config: BrokerConfig, clock: WallClock, entropy: Entropy) -> Dialer:
    """Return what this broker reaches others by: as their listener between brokers wants it.

    :raises ConfigError: its files do not make a context, or there is no password.
    """
    listener = config.listener(config.inter_broker_listener)
    dialer = _tls_dialer(config, listener, clock)
    if not listener.sasl_mechanisms:
        return dialer
    user, path = config.inter_broker_user, config.inter_broker_password_file
    assert user is not None
    assert path is not None
    try:
        password = read_secret(path)
    except SecretFileError as error:
        raise ConfigError("inter_broker_password_file", error.cause, error.remedy) from error
    kept = KeptKeys()
    encrypted = listener.tls_certificate_file is not None
    mechanisms = [Mechanism(each) for each in listener.sasl_mechanisms]

    async def begin() -> ClientAuthentication:
        machines: list[MechanismClient] = []
        for mechanism in mechanisms:
            if mechanism is Mechanism.PLAIN:
                machines.append(PlainClient(user, password))
            else:
                nonce = entropy.token(NONCE_BYTES)
                machines.append(ScramClient(mechanism, user, password, nonce, kept))
        return ClientAuthentication(machines, encrypted=encrypted)

    return AuthenticatingDialer(dialer, begin, entropy.random)


def _tls_dialer(config: BrokerConfig, listener: ListenerConfig, clock: WallClock) -> Dialer:
    if listener.tls_certificate_file is None:
        return PlainDialer(HostNames())

    if listener.tls_client_auth != "required":
        # The broker that is called is known by the name that is dialled alone.
        return _made(config, listener, clock, None)

    def is_meant(certificate: Mapping[str, Any], broker_id: int) -> bool:
        wanted = config.broker_principal.format(id=broker_id)
        found = f"User:{principal_of(certificate, listener.tls_principal)}"
        return broker_id == NO_BROKER or found == wanted

    return _made(config, listener, clock, is_meant)


def _made(
    config: BrokerConfig,
    listener: ListenerConfig,
    clock: WallClock,
    is_meant: Callable[[Mapping[str, Any], int], bool] | None,
) -> Dialer:
    try:
        return TlsDialer(ClientTls(_files(listener, "1.3"), clock), is_meant, names=HostNames())
    except (TlsFilesError, SecretFileError) as error:
        raise _mistake(config, listener.name, error) from error


class TlsWatch:
    """It has the files of a broker's listeners and of its dialer looked at.

    :param listeners: returns the listeners that there are.
    """

    def __init__(self, listeners: Callable[[], Iterable[Listener]], dialer: Dialer) -> None:
        self._listeners = listeners
        self._dialer = dialer
        self._threads = Threads(1, "tls files")
        self._wanted = asyncio.Event()

    def look_soon(self) -> None:
        """Have the files looked at now, and not only when their time has come."""
        self._wanted.set()

    async def run(self) -> None:
        """Look at the files and at the peers every ``LOOK_S``, and when somebody asks for it, until
        cancelled."""
        try:
            while True:
                try:
                    async with asyncio.timeout(LOOK_S):
                        await self._wanted.wait()
                except TimeoutError:
                    pass
                self._wanted.clear()
                await self.look()
        finally:
            self._threads.close()

    async def look(self) -> None:
        """Look at the files once; then end the connections of peers that are good no more."""
        for listener in self._listeners():
            tls = listener.security.tls
            if tls is not None:
                await renew_tls(self._threads, listener.name, tls.refresh, tls.days_left)
                listener.recheck()
        dialer = self._dialer
        if isinstance(dialer, AuthenticatingDialer):
            dialer = dialer.dialer
        if isinstance(dialer, TlsDialer):
            await renew_tls(self._threads, "to other brokers", dialer.refresh)


async def renew_tls(
    threads: Threads,
    name: str,
    refresh: Callable[[], bool],
    days_left: Callable[[], float | None] | None = None,
) -> None:
    """Have files looked at in a thread, and log what came of it.

    :param name: who uses them, for the log.
    :param refresh: looks at the files; it returns whether they are new.
    :param days_left: returns for how long the certificate in use is valid.
    """
    days = None if days_left is None else days_left()
    try:
        # A list of a million revoked certificates takes longer than a loop may be held.
        renewed = await threads.call(refresh)
    except TlsFilesError as error:
        logger.error("tls_files_refused", listener=name, error=error, days_left=_round(days))
        return
    if renewed:
        days = None if days_left is None else days_left()
        logger.info("tls_files_renewed", listener=name, days_left=_round(days))


def _round(days: float | None) -> float | None:
    return None if days is None else round(days, 1)


def _files(listener: ListenerConfig, min_version: Literal["1.2", "1.3"]) -> TlsFiles:
    key = listener.tls_key_file
    return TlsFiles(
        min_version=min_version,
        certificate_file=listener.tls_certificate_file,
        key_file=None if key is None else private(listener.name, key),
        key_password=_password(listener.tls_key_password_file),
        ca_file=listener.tls_client_ca_file,
        crl_file=listener.tls_crl_file,
    )


def private(name: str, key: str) -> str:
    """Return the path of a key that not everybody may read; one that its group may is told.

    :param name: who uses it, for the log.
    :raises SecretFileError: see ``check_private``.
    """
    if check_private(key):
        logger.warning("key_readable_by_group", listener=name, path=key)
    return key


def _password(path: str | None) -> str | None:
    return None if path is None else read_secret(path)


def _mistake(
    config: BrokerConfig, name: str, error: TlsFilesError | SecretFileError
) -> ConfigError:
    index = next(i for i, each in enumerate(config.listeners) if each.name == name)
    return refused(f"listeners.{index}.tls_certificate_file", error)


def refused(setting: str, error: TlsFilesError | SecretFileError) -> ConfigError:
    """Return what a broker does not start for: a setting names files that are of no use."""
    remedy = error.remedy[0].upper() + error.remedy[1:]
    return ConfigError(setting, error.cause, remedy)

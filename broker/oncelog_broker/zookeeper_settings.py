"""The settings of ZooKeeper become the store that a broker is given."""

from __future__ import annotations

from oncelog_broker.config import BrokerConfig, ConfigError
from oncelog_broker.security import private, refused
from oncelog_controller.zookeeper import ZooKeeperStore
from oncelog_controller.zookeeper_access import ZooKeeperAccess
from oncelog_runtime.clock import SystemWallClock
from oncelog_runtime.secret_files import SecretFileError, read_secret
from oncelog_runtime.tls_contexts import ClientTls, TlsFiles, TlsFilesError


def zookeeper_store(config: BrokerConfig) -> ZooKeeperStore:
    """Return ZooKeeper at ``zookeeper_connect``, whose chroot follows the first slash.

    :raises ConfigError: a file of TLS or the one with the password is of no use.
    """
    return ZooKeeperStore.from_connect_string(
        config.zookeeper_connect,
        session_timeout_ms=config.zookeeper_session_timeout_ms,
        connect_timeout_ms=config.zookeeper_connection_timeout_ms,
        access=ZooKeeperAccess(
            tls=_tls(config),
            user=config.zookeeper_user,
            password=_password(config.zookeeper_password_file),
            creator_only=config.zookeeper_acl == "creator",
        ),
    )


def _tls(config: BrokerConfig) -> ClientTls | None:
    if config.zookeeper_tls_ca_file is None:
        return None
    key = config.zookeeper_tls_key_file
    try:
        files = TlsFiles(
            min_version="1.2",
            certificate_file=config.zookeeper_tls_certificate_file,
            key_file=None if key is None else private("to ZooKeeper", key),
            ca_file=config.zookeeper_tls_ca_file,
        )
        return ClientTls(files, SystemWallClock())
    except SecretFileError as error:
        raise refused("zookeeper_tls_key_file", error) from error
    except TlsFilesError as error:
        raise refused("zookeeper_tls_ca_file", error) from error


def _password(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        password = read_secret(path)
    except SecretFileError as error:
        raise refused("zookeeper_password_file", error) from error
    if not (password.isascii() and password.isprintable()):
        text = "the password has other characters than ASCII's, which each ZooKeeper reads its way"
        raise ConfigError("zookeeper_password_file", text, "Take letters, digits and signs")
    return password

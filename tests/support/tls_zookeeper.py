"""A real ZooKeeper has a port with TLS as well, and knows clients by their certificates."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from oncelog_cli.local.process import free_port
from oncelog_cli.local.zookeeper import ZooKeeperServer
from oncelog_controller.zookeeper_access import ZooKeeperAccess
from oncelog_runtime.clock import SystemWallClock
from oncelog_runtime.tls_contexts import ClientTls, TlsFiles
from support.certificates import Papers

__all__ = ["PASSWORD", "USER", "TlsZooKeeper", "access"]

HOST = "127.0.0.1"
"""Its certificate is for this address."""
USER = "oncelog"
PASSWORD = "a long password"


def access(
    papers: Papers | None = None,
    certificate: str | None = None,
    *,
    user: str | None = USER,
    password: str = PASSWORD,
    creator_only: bool = True,
) -> ZooKeeperAccess:
    """Return how a session reaches ZooKeeper: over TLS with the CA of these papers, and showing the
    certificate of this name."""
    tls = None
    if papers is not None:
        shown, key = (None, None) if certificate is None else papers.issue(certificate)
        files = TlsFiles(
            min_version="1.2", certificate_file=shown, key_file=key, ca_file=papers.ca_file
        )
        tls = ClientTls(files, SystemWallClock())
    return ZooKeeperAccess(
        tls=tls,
        user=user,
        password=None if user is None else password,
        creator_only=creator_only,
    )


class TlsZooKeeper:
    """It is a server with a port for TLS, which knows clients by the certificates that they show,
    and a plain port."""

    def __init__(self, directory: Path) -> None:
        self.papers = Papers(directory / "papers")
        self.tls_port = free_port()
        self._keys = directory / "keys.pem"
        self._shown: dict[str, tuple[str, str]] = {}
        self.show(HOST)
        provider = "org.apache.zookeeper.server.auth.X509AuthenticationProvider"
        self.server = ZooKeeperServer(
            directory,
            settings={
                "secureClientPort": str(self.tls_port),
                "secureClientPortAddress": HOST,
                "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
                "authProvider.x509": provider,
                "ssl.keyStore.location": str(self._keys),
                "ssl.keyStore.type": "PEM",
                "ssl.trustStore.location": self.papers.ca_file,
                "ssl.trustStore.type": "PEM",
                "ssl.clientAuth": "want",
            },
        )

    @property
    def tls_address(self) -> str:
        """Return ``host:port`` of the port with TLS."""
        return f"{HOST}:{self.tls_port}"

    def show(self, host: str) -> None:
        """Let it show a certificate for this host from its next start on."""
        certificate, key = self.papers.issue("zookeeper", host)
        # Java reads no keys in OpenSSL's own format.
        private = load_pem_private_key(Path(key).read_bytes(), None).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        )
        self._keys.write_bytes(private + Path(certificate).read_bytes())

    def settings(self, name: str | None = None) -> dict[str, str]:
        """Return the settings of a broker that reaches it by TLS, with the certificate of this
        name."""
        found = {"zookeeper_tls_ca_file": self.papers.ca_file}
        if name is not None:
            if name not in self._shown:  # another one would be of another name
                self._shown[name] = self.papers.issue(name)
            certificate, key = self._shown[name]
            found["zookeeper_tls_certificate_file"] = certificate
            found["zookeeper_tls_key_file"] = key
        return found

"""A scripted cluster speaks TLS here, and its clients get what they need for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from oncelog.security import Security
from oncelog_runtime.clock import SystemWallClock
from oncelog_runtime.tls_contexts import ClientAuth, ServerTls, TlsFiles
from support.certificates import Papers

__all__ = ["ClientPapers"]


class ClientPapers(Papers):
    """They are files of both sides."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.issue("broker")

    def server(self, auth: ClientAuth = "none") -> ServerTls:
        """Return what brokers listen with, by the files as they are now."""
        files = TlsFiles(
            min_version="1.2",
            certificate_file=str(self.directory / "broker.pem"),
            key_file=str(self.directory / "broker.key"),
            ca_file=self.ca_file,
        )
        return ServerTls(files, auth, SystemWallClock())

    def security(self, **options: Any) -> Security:
        """Return the options of a client that trusts this CA."""
        return Security(**{"ca_file": self.ca_file, **options})

    def trust(self, other: Papers | str) -> None:
        """Replace the file of the client's CA by that of others, or by a text."""
        pem = other if isinstance(other, str) else other.authority.ca.cert_pem.bytes().decode()
        Path(self.ca_file).write_text(pem)

    def secret(self, text: str) -> Path:
        """Write a secret, and a line end, into a file that its owner alone may read."""
        path = self.directory / "secret"
        path.touch(0o600)
        path.write_text(f"{text}\n")
        return path

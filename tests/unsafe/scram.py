"""The two sides of SCRAM lack one of their rules here."""

from __future__ import annotations

from oncelog_protocol.sasl.credential import ScramKeys
from oncelog_protocol.sasl.outcomes import Done, Failed
from oncelog_protocol.sasl.scram_client import ScramClient
from oncelog_protocol.sasl.scram_server import ScramServer


class PartOfNonce(ScramServer):
    """The nonce of the last message only ends with the server's (CVE-2024-56128)."""

    def _is_own(self, nonce: str, client_nonce: str) -> bool:
        return nonce.endswith(self._nonce)


class AnyServer(ScramClient):
    """It believes whatever the server says at last."""

    def _verify(self, keys: ScramKeys, signature: bytes) -> Done | Failed:
        self._is_over = True
        return Done(self._name)

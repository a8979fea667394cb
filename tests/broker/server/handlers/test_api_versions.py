"""ApiVersions names everything that is spoken."""

from __future__ import annotations

from oncelog_broker.server.handlers.api_versions import ApiVersionsHandler
from oncelog_protocol.messages.handshake import ApiVersionsRequest
from oncelog_protocol.registry import REQUESTS
from support.server import answer


def test_every_api_with_its_versions() -> None:
    response = answer(ApiVersionsHandler(), ApiVersionsRequest())
    assert response.error_code == 0
    assert {a.api_key: (a.version_min, a.version_max) for a in response.apis} == {
        key: cls.versions for key, cls in REQUESTS.items()
    }

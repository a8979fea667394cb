"""The settings of tokens become a judge, or a mistake that names the setting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oncelog_broker.config import BrokerConfig, ConfigError
from oncelog_broker.token_settings import takes_tokens, token_judge
from oncelog_protocol.sasl.oauth_bearer import TokenHolder
from oncelog_runtime.files import SystemFiles
from support.certificates import Papers
from support.clock import ManualClock
from support.https_server import HttpsServer, answer
from support.tokens import AUDIENCE, ISSUER, NOW_S, Issuer, claims_at
from support.waiting import eventually

CLOCK = ManualClock()


def config(**settings: Any) -> BrokerConfig:
    files = {"tls_certificate_file": "/c", "tls_key_file": "/k"}
    tokens = {"name": "tokens", "sasl_mechanisms": ["OAUTHBEARER"], **files}
    given = {"broker_id": 1, "log_dirs": ["/d"], "listeners": [{"name": "internal"}, tokens]}
    issuer = {"oidc_issuer": ISSUER, "oidc_audience": AUDIENCE}
    return BrokerConfig.model_validate({**given, **issuer, **settings})


def test_only_a_listener_with_the_mechanism_takes_tokens() -> None:
    assert takes_tokens(config(oidc_jwks_file="/keys.json"))
    assert not takes_tokens(BrokerConfig.model_validate({"broker_id": 1, "log_dirs": ["/d"]}))


async def test_keys_in_a_file(tmp_path: Path) -> None:
    issuer, path = Issuer(), tmp_path / "keys.json"
    settings = config(oidc_jwks_file=str(path), oidc_principal_claim="azp")
    with pytest.raises(ConfigError, match=r"keys\.json") as caught:
        await token_judge(settings, SystemFiles(), CLOCK)
    assert caught.value.key == "oidc_jwks_file"
    path.write_bytes(b"{}")
    with pytest.raises(ConfigError, match="not a JWK set"):
        await token_judge(settings, SystemFiles(), CLOCK)
    path.write_bytes(issuer.document())
    judge = await token_judge(settings, SystemFiles(), CLOCK)
    holder = await judge.judge(issuer.token(claims_at(azp="app")))
    assert holder == TokenHolder("app", 1000 * (NOW_S + 300))


async def test_keys_at_a_url_need_not_be_there_at_the_start(tmp_path: Path) -> None:
    papers, issuer = Papers(tmp_path), Issuer()
    context = papers.authority.server()
    async with HttpsServer(context, answer(issuer.document())) as server:
        settings = config(oidc_jwks_url=server.url(), oidc_ca_file=papers.ca_file)
        judge = await token_judge(settings, SystemFiles(), CLOCK)
        assert (len(judge.keys), server.requests) == (0, [])
        assert (await judge.judge(issuer.token())).name == "app"
        assert len(server.requests) == 1


async def test_the_ca_file_is_read_for_each_fetch(tmp_path: Path) -> None:
    papers, issuer = Papers(tmp_path / "a"), Issuer()
    ca_file = tmp_path / "a" / "ca.pem"
    ca_file.write_text("none")
    url = "https://127.0.0.1:1/keys"
    with pytest.raises(ConfigError) as caught:
        await token_judge(
            config(oidc_jwks_url=url, oidc_ca_file=papers.ca_file), SystemFiles(), CLOCK
        )
    assert caught.value.key == "oidc_ca_file"
    papers, ca_file = Papers(tmp_path / "b"), tmp_path / "b" / "ca.pem"
    async with HttpsServer(papers.authority.server(), answer(issuer.document())) as server:
        settings = config(oidc_jwks_url=server.url(), oidc_ca_file=papers.ca_file)
        judge = await token_judge(settings, SystemFiles(), CLOCK)
        ca_file.unlink()
        with pytest.raises(Exception, match="no keys yet"):
            await judge.judge(issuer.token())
        await eventually(lambda: judge.keys.failures == 1)


@pytest.mark.cve("2025-27817")
@pytest.mark.parametrize("url", ["file:///etc/passwd", "http://issuer.example/keys", "keys", ""])
async def test_a_url_that_is_not_https_stops_the_start(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        await token_judge(config(oidc_jwks_url=url), SystemFiles(), CLOCK)
    assert caught.value.key == "oidc_jwks_url"


async def test_without_the_extra_the_start_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "oncelog_broker.server.oidc.key_ring", None)
    with pytest.raises(ConfigError, match=r"oncelog\[oidc\]"):
        await token_judge(config(oidc_jwks_file="/keys.json"), SystemFiles(), CLOCK)

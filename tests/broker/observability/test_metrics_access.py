"""The HTTP port asks for a token, and for nothing where probes ask (hostile input, row 56)."""

from __future__ import annotations

import hmac
import logging
from pathlib import Path
from typing import Any

import pytest

from oncelog_broker.config import BrokerConfig, ConfigError
from oncelog_broker.observability.endpoint import PATHS
from oncelog_broker.observability.metrics_access import MetricsAccess
from oncelog_runtime.clock import SystemWallClock
from support.certificates import Papers
from support.http_get import get
from support.observed import observed

TOKEN = "Zm9yLWEtdG9rZW4.~_+/-0123=="


def written(directory: Path, text: str = TOKEN) -> str:
    path = directory / "token"
    path.write_text(text + "\n")
    path.chmod(0o600)
    return str(path)


def access(**settings: Any) -> MetricsAccess:
    values = {"broker_id": 1, "log_dirs": ["/d"], "metrics_port": 0, **settings}
    return MetricsAccess(BrokerConfig.model_validate(values), SystemWallClock())


def test_without_a_token_everybody_may() -> None:
    assert access().allows("")
    assert access().tls is None


@pytest.mark.parametrize("header", [f"Bearer {TOKEN}", f"bearer   {TOKEN} "])
def test_who_brings_the_token_may(tmp_path: Path, header: str) -> None:
    assert access(metrics_token_file=written(tmp_path)).allows(header)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        TOKEN,
        f"Basic {TOKEN}",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN.lower()}",
        f"Bearer {TOKEN} {TOKEN}",
        f"Bearer é{TOKEN}",
        f"Bearer {TOKEN},Bearer x",
    ],
)
def test_others_may_not(tmp_path: Path, header: str) -> None:
    assert not access(metrics_token_file=written(tmp_path)).allows(header)


@pytest.mark.hostile(56)
def test_digests_of_one_length_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A time that grew with what fits would tell the token letter by letter."""
    compared: list[tuple[bytes, bytes]] = []
    port = access(metrics_token_file=written(tmp_path))

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return one == other

    monkeypatch.setattr(hmac, "compare_digest", compare)
    for header in ("", "Bearer x", f"Bearer {TOKEN}"):
        assert port.allows(header) == (TOKEN in header)
    assert [(len(one), len(other)) for one, other in compared] == [(32, 32)] * 3


@pytest.mark.parametrize(
    ("text", "problem"),
    [("", "is empty"), ("x" * 15, "shorter than 16"), ("two words and more", "characters")],
)
def test_a_token_that_is_of_no_use_stops_the_start(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        access(metrics_token_file=written(tmp_path, text))
    assert caught.value.key == "metrics_token_file"
    assert not text or text not in str(caught.value)


async def test_a_new_token_is_taken_and_a_bad_one_leaves_the_old(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    port = access(metrics_token_file=written(tmp_path))
    written(tmp_path, "another-token-0123")
    with caplog.at_level(logging.INFO):
        await port.look()
        assert not port.allows(f"Bearer {TOKEN}")
        assert port.allows("Bearer another-token-0123")
        written(tmp_path, "short")
        await port.look()
    assert port.allows("Bearer another-token-0123")
    assert "metrics_token_refused" in caplog.text
    assert "another-token" not in caplog.text


@pytest.mark.hostile(56)
async def test_only_probes_answer_without_the_token(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    papers = Papers(tmp_path / "tls")
    certificate, key = papers.issue("port")
    client = papers.authority.client()
    settings: dict[str, Any] = {
        "metrics_tls_certificate_file": certificate,
        "metrics_tls_key_file": key,
        "metrics_token_file": written(tmp_path),
    }
    async with observed(tmp_path, **settings) as seen:
        address = seen.endpoints[1].address
        for path in ("/livez", "/readyz", "/startupz"):
            assert (await get(address, path, tls=client)).status == 200
        for path in {"/", *PATHS} - {"/livez", "/readyz", "/startupz"}:
            for header in ("X: y", "Authorization: Bearer wrong", f"Authorization: {TOKEN}"):
                got = await get(address, path, header=header, tls=client)
                assert got.status == 401
                assert got.headers["www-authenticate"].startswith("Bearer")
                assert "oncelog_broker" not in got.text
            header = f"Authorization: Bearer {TOKEN}"
            assert (await get(address, path, header=header, tls=client)).status == 200
        assert "metrics_refused" in caplog.text
        assert TOKEN not in caplog.text


def half_written(path: str) -> None:
    Path(path).write_text("half")


async def test_a_renewed_certificate_is_shown(tmp_path: Path) -> None:
    papers = Papers(tmp_path)
    certificate, key = papers.issue("port")
    port = access(metrics_tls_certificate_file=certificate, metrics_tls_key_file=key)
    assert port.tls is not None
    first = port.tls.context
    await port.look()
    assert port.tls.context is first
    papers.issue("port")
    await port.look()
    second = port.tls.context
    assert second is not first
    half_written(key)
    await port.look()
    assert port.tls.context is second

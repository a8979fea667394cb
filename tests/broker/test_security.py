"""The settings of security become rules of listeners, or a mistake that names the setting."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from oncelog_broker.config import BrokerConfig, ConfigError
from oncelog_broker.security import inter_broker_dialer, listener_security, metrics_tls
from oncelog_broker.server.listener_security import OPEN
from oncelog_protocol.sasl.credential import Mechanism
from oncelog_runtime.clock import SystemWallClock
from oncelog_runtime.dialer import AuthenticatingDialer, PlainDialer, TlsDialer
from oncelog_runtime.entropy import SeededEntropy
from support.certificates import Papers

CHANCE = SeededEntropy(1)


def config(user: dict[str, Any] | None = None, **tls: Any) -> BrokerConfig:
    listeners = [{"name": "internal", **tls}, {"name": "external"}]
    settings = {"broker_id": 1, "log_dirs": ["/d"], "broker_principal": "User:b{id}"}
    return BrokerConfig.model_validate({**settings, **(user or {}), "listeners": listeners})


def test_without_settings_nothing_is_encrypted_and_nobody_proved() -> None:
    clock = SystemWallClock()
    assert listener_security(config(), "internal", clock) is OPEN
    assert isinstance(inter_broker_dialer(config(), clock, CHANCE), PlainDialer)
    assert OPEN.is_broker(1, "User:ANONYMOUS")


def test_a_certificate_makes_rules_and_a_dialer(tmp_path: Path) -> None:
    clock, tls = SystemWallClock(), Papers(tmp_path).tls("b1")
    security = listener_security(config(**tls), "internal", clock)
    assert security.tls is not None
    assert [security.is_broker(1, f"User:b{other}") for other in (1, 2)] == [True, False]
    assert isinstance(inter_broker_dialer(config(**tls), clock, CHANCE), TlsDialer)
    assert listener_security(config(**tls), "external", clock) is OPEN


def test_with_sasl_between_brokers_the_dialer_authenticates(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("pencil\n")
    sasl = {"sasl_mechanisms": ["SCRAM-SHA-256"]}
    user = {"inter_broker_user": "b1", "inter_broker_password_file": str(password)}
    password.chmod(0o600)
    settings = config(user, **sasl)
    assert isinstance(
        inter_broker_dialer(settings, SystemWallClock(), CHANCE), AuthenticatingDialer
    )
    rules = listener_security(settings, "internal", SystemWallClock())
    assert (rules.proves_peers, rules.sasl) == (True, (Mechanism.SCRAM_SHA_256,))
    password.chmod(0o644)
    with pytest.raises(ConfigError, match="everybody may read") as caught:
        inter_broker_dialer(settings, SystemWallClock(), CHANCE)
    assert caught.value.key == "inter_broker_password_file"


@pytest.mark.parametrize(
    ("setting", "content", "problem"),
    [
        ("tls_certificate_file", "", "cannot be read"),
        ("tls_key_file", "-----BEGIN PRIVATE KEY-----", "not whole"),
        ("tls_client_ca_file", "nothing", "cannot be used"),
        ("tls_key_password_file", "", "is empty"),
    ],
)
def test_files_that_are_of_no_use_stop_the_start(
    tmp_path: Path, setting: str, content: str, problem: str
) -> None:
    broken = tmp_path / "broken"
    broken.write_text(content)
    broken.chmod(0o600)
    tls = {**Papers(tmp_path).tls("b1"), setting: str(broken)}
    with pytest.raises(ConfigError, match=problem) as caught:
        listener_security(config(**tls), "internal", SystemWallClock())
    assert caught.value.key == "listeners.0.tls_certificate_file"
    with pytest.raises(ConfigError, match=problem):
        inter_broker_dialer(config(**tls), SystemWallClock(), CHANCE)


def test_the_metrics_port_has_a_context_or_a_mistake_that_names_its_setting(
    tmp_path: Path,
) -> None:
    clock = SystemWallClock()
    assert metrics_tls(config(), clock) is None
    certificate, key = Papers(tmp_path).issue("port")
    port = {
        "metrics_port": 0,
        "metrics_tls_certificate_file": certificate,
        "metrics_tls_key_file": key,
    }
    tls = metrics_tls(config(port), clock)
    assert tls is not None
    assert tls.context.verify_mode == ssl.CERT_NONE, "a probe brings no certificate"
    Path(key).chmod(0o644)
    with pytest.raises(ConfigError, match="everybody may read") as caught:
        metrics_tls(config(port), clock)
    assert caught.value.key == "metrics_tls_certificate_file"

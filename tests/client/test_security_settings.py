"""Settings by name become options of security: ours, and Kafka's."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pytest

from oncelog import Admin, Consumer, Producer
from oncelog.errors import ConfigurationError
from oncelog.security import Security
from oncelog.security_settings import combined, parted


def test_names_are_ours_or_kafkas() -> None:
    own, others = parted(
        {
            "security.protocol": "ssl",
            "ssl.ca.location": "ca.pem",
            "ssl_certificate_location": "app.pem",
            "ssl.key.location": "app.key",
            "server_name": "x.org",
            "linger_ms": "3",
            "request.timeout.ms": 5,
        }
    )
    assert own == {
        "tls": True,
        "ca_file": "ca.pem",
        "certificate_file": "app.pem",
        "key_file": "app.key",
        "server_name": "x.org",
    }
    assert others == {"linger_ms": "3", "request.timeout.ms": 5}
    assert parted({"tls": "true", "key_password_file": "k"})[0]["tls"] is True


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"ssl.truststore.location": "x.jks"}, "openssl pkcs12 .* ssl.ca.location=ca.pem"),
        ({"ssl.keystore.password": "s3cret"}, "ssl.certificate.location and ssl.key.location"),
        ({"ssl_key_password": "s3cret"}, "key_password_file"),
        (
            {"ssl.truststore.location": "x.jks", "ssl.truststore.type": "JKS"},
            "openssl pkcs12 .* ssl.truststore.type=PEM",
        ),
        ({"ssl.keystore.type": "PKCS12"}, "Java's key stores are not read"),
        ({"ssl.keystore.key": "s3cret"}, "write key and certificates into a file"),
        ({"sasl.oauthbearer.token.endpoint.url": "file:///etc/passwd"}, "give token_file"),
        ({"sasl.login.callback.handler.class": "s3cret"}, "no class is loaded"),
        ({"security.protocol": "SSL", "token_file": "t"}, "token_file contradict"),
        ({"sasl.jaas.config": "s3cret"}, "JAAS is Java's"),
        ({"ssl.endpoint.identification.algorithm": ""}, "always verified"),
        ({"enable.ssl.certificate.verification": "false"}, "always verified"),
        ({"security.protocol": "TLS"}, "must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"security.protocol": "PLAINTEXT", "ssl.ca.location": "c"}, "ca_file contradict"),
        ({"security.protocol": "SASL_PLAINTEXT", "ssl.ca.location": "c"}, "ca_file contradict"),
        ({"security.protocol": "SSL", "sasl.username": "app"}, "username contradict"),
    ],
)
def test_what_is_refused_has_a_way_to_go(settings: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        parted(settings)
    assert "s3cret" not in str(caught.value)


def test_a_store_that_is_pem_is_a_file_like_ours() -> None:
    settings = {
        "ssl.truststore.location": "ca.pem",
        "ssl.truststore.type": "PEM",
        "ssl_keystore_type": "pem",
        "ssl_keystore_location": "app.pem",
    }
    found = {"ca_file": "ca.pem", "certificate_file": "app.pem", "key_file": "app.pem"}
    assert parted(settings) == (found, {})
    Security(ca_file="ca.pem", certificate_file="app.pem", key_file="app.pem")


def test_what_is_so_anyway_may_be_said() -> None:
    settings = {
        "ssl.endpoint.identification.algorithm": "https",
        "enable.ssl.certificate.verification": "true",
    }
    assert parted(settings) == ({}, {})


@pytest.mark.parametrize(
    ("layers", "found"),
    [
        ([], None),
        ([{}, {}], None),
        ([{"tls": False}], None),
        ([{"ca_file": "a"}, {"ca_file": "b", "server_name": "x"}], ("b", "x")),
        ([{"ca_file": "a"}, {"tls": False}], None),
        ([{"tls": False}, {"ca_file": "b"}], ("b", None)),
    ],
)
def test_the_later_goes_before_the_earlier(layers: list[dict[str, Any]], found: Any) -> None:
    security = combined(layers)
    if found is None:
        assert security is None
    else:
        assert security == Security(ca_file=found[0], server_name=found[1])


def test_a_user_by_kafkas_names() -> None:
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "app",
        "sasl.password": "secret",
    }
    user: dict[str, Any] = {"mechanism": "SCRAM-SHA-512", "username": "app", "password": "secret"}
    assert parted(settings) == ({"tls": True, **user}, {})
    plain, _ = parted({**settings, "security.protocol": "SASL_PLAINTEXT"})
    assert combined([{"ca_file": "x"}, plain]) == Security(**user)
    token = combined([{"ca_file": "x", "token": "s3cret"}, {"token_file": "f"}])
    assert token == Security(ca_file="x", token_file="f")
    file = combined([{"username": "app", "password": "x"}, {"password_file": "f"}])
    assert file == Security(username="app", password_file="f")


def test_an_option_that_is_none() -> None:
    with pytest.raises(ConfigurationError, match="'cafile' is no option; there are ca_file"):
        combined([{"cafile": "x"}])


# ---- what settings cannot do


CLASSES = (
    *("sasl.jaas.config", "sasl.login.class", "sasl.login.callback.handler.class"),
    *("sasl.client.callback.handler.class", "sasl.oauthbearer.token.endpoint.url"),
    *("ssl.engine.factory.class", "security.providers", "config.providers"),
    *("key.serializer", "interceptor.classes", "metric.reporters", "partitioner.class"),
)
"""By these settings of Kafka's clients a class is loaded, or a URL is opened."""

LOADED = "com.sun.security.auth.module.JndiLoginModule required user.provider.url=ldap://evil;"


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.cve("2023-25194", "2025-27818")
def test_no_setting_loads_a_class(name: str) -> None:
    """A class that a setting names is loaded by nobody: there is no such setting."""
    try:
        own, others = parted({name: LOADED})
    except ConfigurationError:
        return
    assert (own, list(others)) == ({}, [name])
    clients: list[Any] = [Admin, Consumer, Producer]
    for client in clients:
        assert name.replace(".", "_") not in signature(client).parameters
        with pytest.raises(TypeError, match=name.replace(".", "_")):
            client("here:1", **{name.replace(".", "_"): LOADED})


@pytest.mark.hostile(52)
@pytest.mark.cve("2024-31141")
@pytest.mark.parametrize("text", ["${env:HOME}", "${file:/etc/passwd:root}", "file:/etc/passwd"])
def test_a_value_is_taken_as_text(text: str) -> None:
    own, _ = parted({"sasl.username": "app", "sasl.password": text})
    security = combined([own])
    assert security is not None
    assert security.password == text

"""Programs that are configured by names and texts say here how connections are secured.

The names are those of :class:`oncelog.Security`, or Kafka's with dots or underscores
(``security.protocol``, ``ssl.ca.location``). What Kafka has and Oncelog refuses is named with the
way to go: Java's key stores, and whatever weakens the verification of certificates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from oncelog.errors import ConfigurationError
from oncelog.security import NAMED_OPTIONS, Security

__all__ = ["SECURITY_NAMES", "combined", "parted"]

_KAFKA = {
    "ssl_ca_location": "ca_file",
    "ssl_certificate_location": "certificate_file",
    "ssl_key_location": "key_file",
    "sasl_mechanism": "mechanism",
    "sasl_mechanisms": "mechanism",
    "sasl_username": "username",
    "sasl_password": "password",
}
_USER = ("username", "password", "password_file", "mechanism", "token", "token_file")
_SECRETS = (("password", "password_file"), ("token", "token_file"))
"""A later one of two goes before the other."""
_PROTOCOL = "security_protocol"
_TO_PEM = (
    "Java's key stores are not read, PEM is: keytool -importkeystore -srckeystore store.jks"
    " -destkeystore store.p12 -deststoretype PKCS12, then "
)
_TRUSTED = _TO_PEM + "openssl pkcs12 -in store.p12 -nokeys -out ca.pem, and ssl.ca.location=ca.pem"
_OWN = (
    _TO_PEM + "openssl pkcs12 -in store.p12 -nodes -out app.pem, and ssl.certificate.location and"
    " ssl.key.location=app.pem"
)
_ALWAYS = "chain and name of a broker's certificate are always verified: leave it out"
_STORES = {
    "ssl_truststore_location": ("ssl_truststore_type", ("ca_file",), _TRUSTED),
    "ssl_keystore_location": ("ssl_keystore_type", ("certificate_file", "key_file"), _OWN),
}
"""A store of the type PEM is a file as ours (KIP-651); of all other types it is refused."""
_REFUSED = {
    **{f"ssl_truststore_{each}": _TRUSTED for each in ("type", "password")},
    **{f"ssl_keystore_{each}": _OWN for each in ("type", "password")},
    **dict.fromkeys(
        ("ssl_keystore_key", "ssl_keystore_certificate_chain"),
        "write key and certificates into a file, and give ssl.key.location and"
        " ssl.certificate.location",
    ),
    "ssl_truststore_certificates": "write the certificates into a file, and give ssl.ca.location",
    "ssl_key_password": "write the password into a file, and give key_password_file",
    "enable_ssl_certificate_verification": _ALWAYS,
    "ssl_endpoint_identification_algorithm": _ALWAYS,
    **dict.fromkeys(
        (
            "sasl_oauthbearer_token_endpoint_url",
            "sasl_oauthbearer_config",
            "sasl_oauthbearer_method",
        ),
        "no client fetches tokens from a URL of its settings: give token_file, which something else"
        " keeps fresh, or a function of yours as token",
    ),
    "sasl_login_callback_handler_class": "no class is loaded: give token_file, or a function of"
    " yours as token",
    "sasl_jaas_config": "JAAS is Java's: give sasl.username, and sasl.password or password_file",
}
_HARMLESS = {
    "ssl_truststore_type": "pem",
    "ssl_keystore_type": "pem",
    "enable_ssl_certificate_verification": "true",
    "ssl_endpoint_identification_algorithm": "https",
}
"""These values say what is so anyway."""

SECURITY_NAMES = (*NAMED_OPTIONS, *_KAFKA, _PROTOCOL, *_STORES, *_REFUSED)
"""All names that :func:`parted` knows, in snake case."""


def parted(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of Security among ``settings``, by their own names, and the others.

    ``security.protocol=PLAINTEXT`` is the option ``tls`` with the value False.

    :raises ConfigurationError: a setting of Kafka's that is refused; the text has the way to go.
    """
    own: dict[str, Any] = {}
    has_user: bool | None = None
    types = {name.replace(".", "_"): str(value).lower() for name, value in settings.items()}
    others: dict[str, Any] = {}
    for given, value in settings.items():
        name = given.replace(".", "_")
        if name not in SECURITY_NAMES:
            others[given] = value
        elif name == _PROTOCOL:
            own["tls"], has_user = _protocol(value)
        elif name in _STORES:
            kind, names, remedy = _STORES[name]
            if types.get(kind) != "pem":
                raise ConfigurationError(
                    f"{name.replace('_', '.')}: {remedy}; a store that is PEM goes with"
                    f" {kind.replace('_', '.')}=PEM"
                )
            own |= dict.fromkeys(names, value)
        elif name in _REFUSED:
            if str(value).lower() != _HARMLESS.get(name):
                raise ConfigurationError(f"{name.replace('_', '.')}: {_REFUSED[name]}")
        else:
            own[_KAFKA.get(name, name)] = True if value == "true" and name == "tls" else value
    _check_protocol(own, has_user)
    return own, others


def _protocol(value: object) -> tuple[bool, bool]:
    """Return whether a protocol of Kafka's is over TLS, and whether it has a user."""
    protocols = {
        "PLAINTEXT": (False, False),
        "SSL": (True, False),
        "SASL_PLAINTEXT": (False, True),
        "SASL_SSL": (True, True),
    }
    found = protocols.get(str(value).upper())
    if found is None:
        raise ConfigurationError(
            f"security.protocol={value!r:.40}: must be one of {', '.join(protocols)}"
        )
    return found


def _check_protocol(own: dict[str, Any], has_user: bool | None) -> None:
    """Raise ConfigurationError if the protocol and other options contradict each other."""
    if has_user is None:
        return
    contrary = [each for each in own if each in _USER] if not has_user else []
    if own["tls"] is False:
        contrary += [each for each in own if each not in (*_USER, "tls")]
    if contrary:
        raise ConfigurationError(
            f"security.protocol and {contrary[0]} contradict each other: it is for"
            " SASL_SSL (TLS and a user), SSL (TLS alone) or SASL_PLAINTEXT (a user alone)"
        )


def combined(layers: Iterable[Mapping[str, Any]]) -> Security | None:
    """Return what options say together, the later ones before the earlier; None: nothing.

    :raises ConfigurationError: they do not fit together, or one is none of Security's.
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        if layer.get("tls") is False:
            merged = {}
        for pair in _SECRETS:
            if any(each in layer for each in pair):
                merged = {name: value for name, value in merged.items() if name not in pair}
        merged |= {name: value for name, value in layer.items() if value is not False}
    for name in merged:
        if name not in NAMED_OPTIONS:
            listed = ", ".join(NAMED_OPTIONS)
            raise ConfigurationError(f"security: {name!r:.40} is no option; there are {listed}")
    return Security(**merged) if merged else None

"""These checks find every problem of a broker's settings as a whole, all at once. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import Any

from oncelog_broker.config.errors import Problem
from oncelog_protocol.acls import EVERYBODY, check_principal
from oncelog_protocol.errors import InvalidConfigError, InvalidRequestError
from oncelog_protocol.topic_config import parse_topic_config

VARIABLE = "${"
TLS_FILES = ("tls_key_file", "tls_key_password_file", "tls_client_ca_file", "tls_crl_file")
METRICS_SECRETS = ("metrics_tls_key_file", "metrics_tls_key_password_file")
ZOOKEEPER_PAIRS = (
    ("zookeeper_tls_certificate_file", "zookeeper_tls_key_file"),
    ("zookeeper_tls_key_file", "zookeeper_tls_certificate_file"),
    ("zookeeper_user", "zookeeper_password_file"),
    ("zookeeper_password_file", "zookeeper_user"),
)
"""None of them goes without its other."""
TOKENS = "OAUTHBEARER"
TOKEN_SETTINGS = ("oidc_issuer", "oidc_audience", "oidc_jwks_url", "oidc_jwks_file", "oidc_ca_file")
LOOPBACK_HOSTS = ("127.0.0.1", "::1", "localhost")
NUMBER_MAX = 2**63 - 1
"""This is the bound of topic settings too. Far above it times could not be counted in seconds any
more."""


def problems(values: Mapping[str, Any], topic_defaults: Mapping[str, str]) -> list[Problem]:
    """Return all that does not hold, in the order of the settings.

    :param values: every setting by its name, as ``BrokerConfig.model_dump`` gives them.
    :param topic_defaults: what topics get that do not say otherwise, as texts.
    """
    return [
        *_of_numbers(values),
        *_of_texts(values),
        *_of_listeners(values),
        *_of_tls(values),
        *_of_metrics_port(values),
        *_of_super_users(values),
        *_of_inter_broker_user(values),
        *_of_zookeeper(values),
        *_of_tokens(values),
        *_of_times(values),
        *_of_topic_defaults(topic_defaults),
    ]


def text_fault(text: str) -> tuple[str, str] | None:
    """Return (problem, remedy) for a text that no setting may hold, and None for any other."""
    if VARIABLE in text:
        return "variables such as ${NAME} are not replaced", "Write the value itself"
    if not text.isprintable():
        return "the value holds a line break or another control character", "Remove it"
    return None


def _of_numbers(values: Mapping[str, Any]) -> Iterator[Problem]:
    for key, value in values.items():
        if type(value) is int and value > NUMBER_MAX:
            yield Problem(key, "the number is too large", "Use one up to 2^63-1")


def _of_texts(values: Mapping[str, Any]) -> Iterator[Problem]:
    for key, value in values.items():
        for path, text in _texts(key, value):
            fault = text_fault(text)
            if fault is not None:
                yield Problem(path, *fault)


def _texts(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(f"{path}.{key}", item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(f"{path}.{index}", item)


def _of_listeners(values: Mapping[str, Any]) -> Iterator[Problem]:
    listeners = values["listeners"]
    names = [listener["name"] for listener in listeners]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield Problem("listeners", f"two are named {name!r}", "Give each its own name")
    taken: dict[tuple[str, int], str] = {}
    for listener in listeners:
        host, port = listener["host"], listener["port"]
        if port and (host, port) in taken:
            yield Problem(
                "listeners",
                f"{taken[host, port]!r} and {listener['name']!r} both take {host}:{port}",
                "Give each its own port",
            )
        taken[host, port] = listener["name"]
    if values["inter_broker_listener"] not in names:
        yield Problem(
            "inter_broker_listener",
            f"{values['inter_broker_listener']!r} is none of the listeners {names}",
            "Name one of them",
            ["listeners"],
        )
    second = values["inter_broker_listener_second"]
    for listener in listeners:
        between = listener["name"] in (values["inter_broker_listener"], second)
        if between and listener["protocol"] != "oncelog":
            yield Problem(
                "inter_broker_listener",
                f"{listener['name']!r} speaks the protocol of {listener['protocol'].capitalize()}",
                'Name a listener with protocol = "oncelog"',
                ["listeners"],
            )
    if second is not None and (second not in names or second == values["inter_broker_listener"]):
        yield Problem(
            "inter_broker_listener_second",
            f"{second!r} is no second one of the listeners {names}",
            "Name one beside inter_broker_listener, or remove it",
            ["listeners", "inter_broker_listener"],
        )


def _of_tls(values: Mapping[str, Any]) -> Iterator[Problem]:
    names = (values["inter_broker_listener"], values["inter_broker_listener_second"])
    for index, listener in enumerate(values["listeners"]):

        def problem(setting: str, text: str, remedy: str, index: int = index) -> Problem:
            return Problem(f"listeners.{index}.{setting}", text, remedy)

        for mechanism, secret in (("PLAIN", "the password"), (TOKENS, "the token")):
            if mechanism in listener["sasl_mechanisms"] and not listener["tls_certificate_file"]:
                text = f"{mechanism} shows {secret}, and the listener has no TLS"
                yield problem("sasl_mechanisms", text, "Set tls_certificate_file, or use SCRAM")
        if listener["tls_certificate_file"] is None:
            for setting in TLS_FILES:
                if listener[setting] is not None:
                    text = "there is no tls_certificate_file, so the listener has no TLS"
                    yield problem(setting, text, "Set tls_certificate_file, or remove it")
            if listener["tls_client_auth"] != "none":
                text = "without TLS no peer shows a certificate"
                yield problem("tls_client_auth", text, "Set tls_certificate_file")
            continue
        if listener["tls_key_file"] is None:
            yield problem("tls_key_file", "is required with tls_certificate_file", "Set it")
        between_brokers = listener["name"] in names
        wants_ca = between_brokers or listener["tls_client_auth"] != "none"
        if wants_ca and listener["tls_client_ca_file"] is None:
            text = "peers show certificates here, and nothing says by which CAs they are verified"
            yield problem("tls_client_ca_file", text, "Name the file with these CAs")
        by_sasl = bool(listener["sasl_mechanisms"])
        if between_brokers and listener["tls_client_auth"] != "required" and not by_sasl:
            text = "brokers prove by their certificates who they are"
            yield problem("tls_client_auth", text, "Set it to required, or set sasl_mechanisms")


def _of_metrics_port(values: Mapping[str, Any]) -> Iterator[Problem]:
    has_tls = values["metrics_tls_certificate_file"] is not None
    for setting in ("metrics_tls_certificate_file", "metrics_token_file"):
        if values[setting] is not None and values["metrics_port"] is None:
            text = "there is no metrics_port, so nobody is shown anything"
            yield Problem(setting, text, "Set metrics_port, or remove it", ["metrics_port"])
    for setting in METRICS_SECRETS:
        if values[setting] is not None and not has_tls:
            text = "there is no metrics_tls_certificate_file, so the HTTP port has no TLS"
            yield Problem(setting, text, "Set metrics_tls_certificate_file, or remove it")
    if has_tls and values["metrics_tls_key_file"] is None:
        text = "is required with metrics_tls_certificate_file"
        yield Problem("metrics_tls_key_file", text, "Set it", ["metrics_tls_certificate_file"])
    outside = values["metrics_host"] not in LOOPBACK_HOSTS
    if values["metrics_token_file"] is not None and outside and not has_tls:
        text = "the token would be shown to the network, since the HTTP port has no TLS"
        remedy = "Set metrics_tls_certificate_file, or metrics_host to 127.0.0.1"
        yield Problem("metrics_token_file", text, remedy, ["metrics_host"])


def _of_inter_broker_user(values: Mapping[str, Any]) -> Iterator[Problem]:
    wanted = any(
        listener["sasl_mechanisms"]
        for listener in values["listeners"]
        if listener["name"] == values["inter_broker_listener"]
    )
    for setting in ("inter_broker_user", "inter_broker_password_file"):
        if wanted and values[setting] is None:
            text = "is required, since the listener between brokers has sasl_mechanisms"
            yield Problem(setting, text, "Set it", ["listeners", "inter_broker_listener"])
        elif not wanted and values[setting] is not None:
            text = "the listener between brokers has no sasl_mechanisms"
            yield Problem(setting, text, "Remove it", ["listeners", "inter_broker_listener"])


def _of_zookeeper(values: Mapping[str, Any]) -> Iterator[Problem]:
    has_tls = values["zookeeper_tls_ca_file"] is not None
    for setting, other in ZOOKEEPER_PAIRS:
        if values[setting] is not None and values[other] is None:
            yield Problem(other, f"is required with {setting}", "Set it", [setting])
    if values["zookeeper_tls_certificate_file"] is not None and not has_tls:
        text = "there is no zookeeper_tls_ca_file, so ZooKeeper is reached without TLS"
        remedy = "Set zookeeper_tls_ca_file, or remove it"
        yield Problem("zookeeper_tls_certificate_file", text, remedy, ["zookeeper_tls_ca_file"])
    if values["zookeeper_user"] is not None and not has_tls:
        outside = [host for host in _hosts(values["zookeeper_connect"]) if not _is_here(host)]
        if outside:
            text = f"the password would be shown to the network on its way to {outside[0]}"
            remedy = "Set zookeeper_tls_ca_file, and in zookeeper_connect the port with TLS"
            yield Problem("zookeeper_user", text, remedy, ["zookeeper_connect"])
    identities = ("zookeeper_user", "zookeeper_tls_certificate_file")
    if values["zookeeper_acl"] == "creator" and all(values[each] is None for each in identities):
        text = "without an identity there is no creator to whom what is made could belong"
        remedy = "Set zookeeper_user, or zookeeper_tls_certificate_file"
        yield Problem("zookeeper_acl", text, remedy, list(identities))


def _hosts(connect: str) -> list[str]:
    """Return the hosts of ``host:port,host:port/chroot``."""
    addresses = connect.partition("/")[0].split(",")
    return [address.strip().rpartition(":")[0] or address.strip() for address in addresses]


def _is_here(host: str) -> bool:
    """Return whether a host of ZooKeeper is this machine."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host in LOOPBACK_HOSTS


def _of_tokens(values: Mapping[str, Any]) -> Iterator[Problem]:
    taking = [each for each in values["listeners"] if TOKENS in each["sasl_mechanisms"]]
    if not taking:
        for setting in TOKEN_SETTINGS:
            if values[setting] is not None:
                text = f"no listener has {TOKENS} among its sasl_mechanisms"
                yield Problem(setting, text, "Add it there, or remove this", ["listeners"])
        return
    if any(each["name"] == values["inter_broker_listener"] for each in taking):
        text = f"brokers do not authenticate to each other by {TOKENS}"
        involved = ["inter_broker_listener"]
        yield Problem("listeners", text, "Take tokens on another listener", involved)
    for setting in ("oidc_issuer", "oidc_audience"):
        if values[setting] is None:
            text = f"is required, since a listener has {TOKENS}: without it any token would do"
            yield Problem(setting, text, "Set it", ["listeners"])
    if (values["oidc_jwks_url"] is None) == (values["oidc_jwks_file"] is None):
        text = f"a listener has {TOKENS}, and the issuer's keys come from one place"
        remedy = "Set either oidc_jwks_url or oidc_jwks_file"
        yield Problem("oidc_jwks_url", text, remedy, ["oidc_jwks_file", "listeners"])
    if values["oidc_ca_file"] is not None and values["oidc_jwks_url"] is None:
        text = "it is for oidc_jwks_url, which is not set"
        yield Problem("oidc_ca_file", text, "Remove it", ["oidc_jwks_url"])


def _of_super_users(values: Mapping[str, Any]) -> Iterator[Problem]:
    for index, user in enumerate(values["super_users"]):
        try:
            check_principal(user)
        except InvalidRequestError as error:
            yield Problem(f"super_users.{index}", str(error), "Write it User:name")
            continue
        if user == EVERYBODY:
            text = f"{EVERYBODY} stands for everybody in ACLs, and for nobody here"
            yield Problem(f"super_users.{index}", text, "Name each user, or use authorizer=none")


def _of_times(values: Mapping[str, Any]) -> Iterator[Problem]:
    least, most = values["group_min_session_timeout_ms"], values["group_max_session_timeout_ms"]
    if least > most:
        yield Problem(
            "group_min_session_timeout_ms",
            f"{least} is above group_max_session_timeout_ms, {most}",
            "Lower it",
            ["group_max_session_timeout_ms"],
        )


def _of_topic_defaults(topic_defaults: Mapping[str, str]) -> Iterator[Problem]:
    try:
        parse_topic_config(topic_defaults)
    except InvalidConfigError as exc:
        yield Problem("topic_defaults", str(exc), "Correct the value")

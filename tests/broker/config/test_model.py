"""The settings model has fields, layers and marks, explains mistakes, and must hold as a whole."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ValidationError

from oncelog_broker.config import BrokerConfig, ListenerConfig
from oncelog_broker.config.consistency import text_fault
from oncelog_broker.config.errors import ConfigError, InconsistentError, Problem
from oncelog_broker.config.layers import DEFAULT, Layers, NoSuchPartError, Origin, is_map
from oncelog_broker.config.marks import Dynamic, Secret, is_dynamic, is_secret

# ---- model.py: the model: defaults, and what others make of it


def test_topic_defaults_take_numbers_and_truths() -> None:
    config = BrokerConfig(
        broker_id=1,
        log_dirs=["/d"],
        min_insync_replicas=2,
        topic_defaults={"retention_ms": 5, "unclean_leader_election_enable": True},
    )
    texts = config.topic_default_texts()
    assert texts["retention_ms"] == "5"
    assert texts["unclean_leader_election_enable"] == "true"
    assert texts["min_insync_replicas"] == "2"
    assert config.listener("external") == ListenerConfig(name="external")


# ---- errors.py: mistakes: one message each, and one error that names them all


def test_a_message_names_place_key_problem_and_remedy() -> None:
    assert str(ConfigError("a", "is wrong", "Mend it", "file")) == "file: a: is wrong. Mend it"
    assert str(ConfigError("", "is wrong", "Mend it")) == "is wrong. Mend it"


def test_several_mistakes_are_one_error() -> None:
    one, two = ConfigError("a", "is wrong", "Mend it"), ConfigError("b", "is too", "Do")
    both = ConfigError.of_all([one, two])
    assert [each.key for each in both.all] == ["a", "b"]
    assert str(both) == "a: is wrong. Mend it (and 1 more mistakes)"
    assert both.message == one.message


def test_problems_know_what_they_follow_from() -> None:
    problem = Problem("a.b", "does not fit c", "Change it", ["c"])
    assert problem.involved == ("a", "c")
    assert str(InconsistentError([problem])) == "a.b: does not fit c"


# ---- layers.py: layers: parts of settings over each other, and where each came from


ONE = Origin("file", "f")
TWO = Origin("environment", "ONCELOG_X")


def test_origins_have_names() -> None:
    assert (str(DEFAULT), str(ONE)) == ("default", "file f")


def test_the_nearest_origin_counts() -> None:
    layers = Layers()
    layers.put("listeners", [{"name": "a", "port": 1}], ONE)
    layers.put_text(["listeners", "a", "port"], "2", TWO)
    assert layers.values == {"listeners": [{"name": "a", "port": "2"}]}
    assert layers.origin(("listeners", 0, "port")) == TWO
    assert layers.origin(("listeners", 0, "host")) == ONE
    assert layers.set_by(("listeners", 0, "port")) == TWO
    assert layers.set_by(("listeners", 0, "name")) == ONE
    assert layers.set_by(("listeners", 0, "host")) == DEFAULT
    assert layers.origin(("rack",)) == DEFAULT
    assert layers.origins_within("listeners") == [ONE, TWO]


def test_a_whole_value_forgets_its_parts() -> None:
    layers = Layers()
    layers.put("topic_defaults", {"flush": "commit"}, ONE)
    layers.put_text(["topic_defaults"], '{"retention_ms": 1}', TWO)
    assert layers.values == {"topic_defaults": {"retention_ms": 1}}
    assert layers.origins_within("topic_defaults") == [TWO]


def test_names_of_map_entries_may_hold_dots() -> None:
    layers = Layers()
    layers.put_text(["log_levels", "oncelog_broker", "log"], "debug", ONE)
    assert layers.values == {"log_levels": {"oncelog_broker.log": "debug"}}
    assert is_map("log_levels")
    assert not is_map("listeners")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (["rack", "x"], "1"),
        (["listeners", "a"], "1"),
        (["listeners", "a", "b", "c"], "1"),
        (["listeners"], "{"),
        (["listeners"], '{"a": 1}'),
        (["topic_defaults"], "a=1"),
        (["log_dirs"], "[x"),
    ],
)
def test_paths_that_lead_nowhere(path: list[str], text: str) -> None:
    with pytest.raises(NoSuchPartError):
        Layers().put_text(path, text, ONE)


def test_a_list_that_is_none_cannot_be_added_to() -> None:
    layers = Layers()
    layers.put("listeners", 3, ONE)
    with pytest.raises(NoSuchPartError):
        layers.put_text(["listeners", "a", "port"], "1", TWO)


def test_what_is_no_map_cannot_be_added_to() -> None:
    layers = Layers()
    layers.put("topic_defaults", 3, ONE)
    with pytest.raises(NoSuchPartError, match="no table"):
        layers.put_text(["topic_defaults", "flush"], "commit", TWO)


# ---- marks.py: marks of fields: found on the model, in whatever order they stand


class Marked(BaseModel):
    plain: int = 1
    moving: Dynamic[int] = 1
    both: Dynamic[Secret[str]] = ""


def test_marks_are_found() -> None:
    fields = Marked.model_fields
    assert [is_dynamic(fields[key]) for key in fields] == [False, True, True]
    assert [is_secret(fields[key]) for key in fields] == [False, False, True]


def test_what_would_take_a_restart_is_not_dynamic() -> None:
    fields = BrokerConfig.model_fields
    assert not any(is_dynamic(fields[key]) for key in ("broker_id", "log_dirs", "listeners"))


# ---- consistency.py: what must hold for settings as a whole: every problem at once


def keys(**settings: object) -> list[str]:
    """Return the keys of a broker's problems with these settings."""
    with pytest.raises(ValidationError) as caught:
        BrokerConfig.model_validate({"broker_id": 1, "log_dirs": ["/d"], **settings})
    (error,) = caught.value.errors()
    cause = error["ctx"]["error"]
    assert isinstance(cause, InconsistentError)
    return [problem.key for problem in cause.problems]


def test_every_problem_is_found() -> None:
    twice = [{"name": "a", "port": 1}, {"name": "a", "port": 1}]
    assert keys(listeners=twice, group_max_session_timeout_ms=1, topic_defaults={"x": 1}) == [
        "listeners",
        "listeners",
        "inter_broker_listener",
        "group_min_session_timeout_ms",
        "topic_defaults",
    ]


@pytest.mark.parametrize("wrong", ["app", "User:", "User:*", "User:a*", "Group:g"])
def test_super_users_are_users(wrong: str) -> None:
    assert keys(super_users=["User:admin", wrong]) == ["super_users.1"]
    fine = ["User:admin", "User:CN=root,O=us"]
    config = BrokerConfig.model_validate({"broker_id": 1, "log_dirs": ["/d"], "super_users": fine})
    assert config.super_users == fine


FILES = {"tls_certificate_file": "/c", "tls_key_file": "/k"}


@pytest.mark.parametrize(
    ("name", "tls", "wrong"),
    [
        (
            "external",
            {"tls_key_file": "/k", "tls_client_auth": "required"},
            ["key_file", "client_auth"],
        ),
        ("external", {"tls_certificate_file": "/c"}, ["key_file"]),
        ("external", {**FILES, "tls_client_auth": "optional"}, ["client_ca_file"]),
        ("internal", FILES, ["client_ca_file", "client_auth"]),
    ],
)
def test_settings_of_tls_go_together(name: str, tls: dict[str, str], wrong: list[str]) -> None:
    listeners = [{"name": name, **tls}, *([] if name == "internal" else [{"name": "internal"}])]
    assert keys(listeners=listeners) == [f"listeners.0.tls_{setting}" for setting in wrong]


def test_settings_of_sasl_go_together() -> None:
    between = [{"name": "internal", "sasl_mechanisms": ["PLAIN"]}]
    wrong = ["listeners.0.sasl_mechanisms", "inter_broker_user", "inter_broker_password_file"]
    assert keys(listeners=between) == wrong
    assert keys(inter_broker_user="b") == ["inter_broker_user"]


GIVEN = {"broker_id": 1, "log_dirs": ["/d"]}
BEARER = {"name": "tokens", "sasl_mechanisms": ["OAUTHBEARER"], **FILES}
OIDC = {"oidc_issuer": "https://x", "oidc_audience": "a", "oidc_jwks_file": "/keys.json"}


@pytest.mark.cve("OAUTHBEARER")
def test_tokens_need_an_issuer_an_audience_and_keys() -> None:
    listeners = [{"name": "internal"}, BEARER]
    fine = {**GIVEN, "listeners": listeners, **OIDC}
    config = BrokerConfig.model_validate(fine)
    assert (config.oidc_principal_claim, config.oidc_algorithms) == ("sub", ["RS256", "ES256"])
    assert keys(listeners=listeners) == ["oidc_issuer", "oidc_audience", "oidc_jwks_url"]
    for name, wrong in (("oidc_jwks_file", "oidc_jwks_url"), ("oidc_audience", "oidc_audience")):
        assert keys(listeners=listeners, **{**OIDC, name: None}) == [wrong]
    both = {**OIDC, "oidc_jwks_url": "https://x/keys"}
    assert keys(listeners=listeners, **both) == ["oidc_jwks_url"]
    assert keys(listeners=listeners, **OIDC, oidc_ca_file="/ca.pem") == ["oidc_ca_file"]
    assert keys(**OIDC) == ["oidc_issuer", "oidc_audience", "oidc_jwks_file"]


def test_tokens_are_taken_over_tls_and_from_clients_alone() -> None:
    plain = {"name": "tokens", "sasl_mechanisms": ["OAUTHBEARER"]}
    wrong = keys(listeners=[{"name": "internal"}, plain], **OIDC)
    assert wrong == ["listeners.1.sasl_mechanisms"]
    between = {**BEARER, "name": "internal", "tls_client_ca_file": "/ca"}
    user = {"inter_broker_user": "b", "inter_broker_password_file": "/p"}
    assert keys(listeners=[between], **user, **OIDC) == ["listeners"]


@pytest.mark.parametrize("algorithm", ["none", "HS256", "HS512", "rs256", "RS1", ""])
@pytest.mark.hostile(29)
def test_no_algorithm_has_a_secret_of_both_sides(algorithm: str) -> None:
    with pytest.raises(ValidationError, match="Input should be 'RS256', 'RS384'"):
        BrokerConfig.model_validate({**GIVEN, "oidc_algorithms": ["RS256", algorithm]})
    with pytest.raises(ValidationError):
        BrokerConfig.model_validate({**GIVEN, "oidc_algorithms": []})


def test_settings_of_the_metrics_port_go_together() -> None:
    files = {"metrics_tls_certificate_file": "/c", "metrics_tls_key_file": "/k"}
    token = {"metrics_token_file": "/t"}
    fine = {"broker_id": 1, "log_dirs": ["/d"], "metrics_port": 1, **token}
    BrokerConfig.model_validate({**fine, "metrics_host": "0.0.0.0", **files})
    BrokerConfig.model_validate(fine)  # nobody else is on the loopback
    assert keys(metrics_port=1, metrics_host="0.0.0.0", **token) == ["metrics_token_file"]
    assert keys(**token) == ["metrics_token_file"]
    assert keys(**files) == ["metrics_tls_certificate_file"]
    assert keys(metrics_port=1, metrics_tls_key_file="/k") == ["metrics_tls_key_file"]
    alone = {"metrics_tls_certificate_file": "/c"}
    assert keys(metrics_port=1, **alone) == ["metrics_tls_key_file"]


ZOOKEEPER_IDENTITY = {"zookeeper_user": "oncelog", "zookeeper_password_file": "/p"}
ZOOKEEPER_TLS = {
    "zookeeper_tls_ca_file": "/ca",
    "zookeeper_tls_certificate_file": "/c",
    "zookeeper_tls_key_file": "/k",
}


@pytest.mark.parametrize(
    "settings",
    [
        {"zookeeper_connect": "zk:2281", **ZOOKEEPER_TLS, "zookeeper_acl": "creator"},
        {"zookeeper_connect": "zk:2281", "zookeeper_tls_ca_file": "/ca", **ZOOKEEPER_IDENTITY},
        {"zookeeper_connect": "127.0.0.1:1,localhost:2,[::1]:3/zk", **ZOOKEEPER_IDENTITY},
        {"zookeeper_connect": "127.0.0.1", "zookeeper_acl": "creator", **ZOOKEEPER_IDENTITY},
    ],
)
def test_zookeeper_is_reached_by_tls_or_on_this_machine(settings: dict[str, str]) -> None:
    BrokerConfig.model_validate({"broker_id": 1, "log_dirs": ["/d"], **settings})


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ({"zookeeper_acl": "creator"}, "acl"),
        ({"zookeeper_acl": "creator", "zookeeper_tls_ca_file": "/ca"}, "acl"),
        ({"zookeeper_tls_certificate_file": "/c", "zookeeper_tls_ca_file": "/ca"}, "tls_key_file"),
        ({"zookeeper_tls_key_file": "/k"}, "tls_certificate_file"),
        ({**ZOOKEEPER_TLS, "zookeeper_tls_ca_file": None}, "tls_certificate_file"),
        ({"zookeeper_user": "u", "zookeeper_connect": "127.0.0.1:1"}, "password_file"),
        ({"zookeeper_password_file": "/p"}, "user"),
        ({**ZOOKEEPER_IDENTITY, "zookeeper_connect": "127.0.0.1:1,zk:1"}, "user"),
        ({**ZOOKEEPER_IDENTITY, "zookeeper_connect": "127.example.com:1/a,127.0.0.1"}, "user"),
        ({**ZOOKEEPER_IDENTITY, "zookeeper_connect": "[2001:db8::1]:1"}, "user"),
    ],
)
def test_settings_of_zookeeper_go_together(settings: dict[str, str], wrong: str) -> None:
    assert keys(**settings) == [f"zookeeper_{wrong}"]


def test_numbers_have_a_bound() -> None:
    assert keys(replica_lag_time_max_ms=2**63) == ["replica_lag_time_max_ms"]


def test_texts_are_looked_at_wherever_they_are() -> None:
    listeners = [{"name": "internal", "host": "${HOST}"}]
    found = keys(rack="a\tb", listeners=listeners, topic_defaults={"flush": "x\n"})
    assert found == ["rack", "listeners.0.host", "topic_defaults.flush", "topic_defaults"]


@pytest.mark.parametrize("text", ["", "a b", "é", "$HOME", "{}"])
def test_ordinary_texts_are_fine(text: str) -> None:
    assert text_fault(text) is None


@pytest.mark.parametrize("text", ["${X}", "a${", "\n", "\x00", "\u2028"])
def test_others_are_not(text: str) -> None:
    assert text_fault(text) is not None

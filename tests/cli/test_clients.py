"""Commands take their client's options from the command line, the environment and profiles, in
order."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from oncelog import Admin, Consumer, Producer, Security
from oncelog.errors import ConfigurationError
from oncelog.shared_transactions.transaction import SharedTransaction
from oncelog_cli import clients
from oncelog_cli.clients import (
    client_options,
    client_security,
    known_options,
    settings_for,
    typed_options,
)
from oncelog_cli.command_tree import leaves
from oncelog_cli.exits import UsageError
from oncelog_cli.invocation import Invocation, invoked
from oncelog_cli.options import bootstrap_servers
from oncelog_cli.profiles import Profile, Profiles, save_profiles
from support.client_papers import ClientPapers
from support.fake_cluster import FakeCluster
from support.house import sources, tree
from support.shell import oncelog


def saved(**options: Any) -> None:
    """Save one profile, and make it the one in use."""
    save_profiles(
        Profiles("p", None, {"p": Profile("profile:1", options=options), "bare": Profile()})
    )


def options(**given: str) -> Invocation:
    return Invocation(options=given)


def test_minus_x_goes_before_the_environment_and_that_before_the_profile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert client_options() == {}
    saved(request_timeout_ms=1, connect_timeout_ms=1, linger_ms=1)
    monkeypatch.setenv("ONCELOG_OPTIONS", "request_timeout_ms=2 connect.timeout.ms=2")
    with invoked(options(request_timeout_ms="3")):
        assert client_options() == {
            "request_timeout_ms": 3,
            "connect_timeout_ms": 2,
            "linger_ms": 1,
        }


def test_a_profile_that_is_named_goes_before_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    saved(request_timeout_ms=1)
    monkeypatch.setenv("ONCELOG_OPTIONS", "request_timeout_ms=2")
    with invoked(Invocation(profile="p", options={"linger_ms": "3"})):
        assert client_options() == {"request_timeout_ms": 1, "linger_ms": 3}


def test_where_the_cluster_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ONCELOG_DIR", str(tmp_path))
    monkeypatch.delenv("ONCELOG_BOOTSTRAP", raising=False)
    saved()
    assert bootstrap_servers(None) == "profile:1"
    monkeypatch.setenv("ONCELOG_BOOTSTRAP", "environment:1")
    assert bootstrap_servers(None) == "environment:1"
    with invoked(Invocation(profile="p")):
        assert bootstrap_servers(None) == "profile:1"
    with invoked(Invocation(profile="bare")):
        assert bootstrap_servers(None) == "environment:1"
    with invoked(Invocation(profile="p", options={"bootstrap_servers": "option:1"})):
        assert bootstrap_servers(None) == "option:1"
        assert client_options() == {}
        with pytest.raises(UsageError, match="same thing"):
            bootstrap_servers("named:1")
    assert bootstrap_servers("named:1") == "named:1"
    with invoked(Invocation(profile="none")), pytest.raises(UsageError, match="no profile 'none'"):
        bootstrap_servers(None)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"request_timeout": "1"}, "did you mean 'request_timeout_ms'"),
        ({"zzz": "1"}, "there are acks, "),
        ({"group_id": "g"}, "use --group"),
        ({"transactional_id": "t"}, "use --transactional-id"),
        ({"clock": "now"}, "not known"),
    ],
)
def test_options_that_no_client_takes(given: dict[str, str], words: str) -> None:
    with invoked(Invocation(options=given)), pytest.raises(UsageError, match=words):
        settings_for(Admin)


def test_values_are_what_their_options_want() -> None:
    given = {
        "acks": "1",
        "client_id": "7",
        "check_crcs": "false",
        "linger_ms": "0.5",
        "compression_level": "3",
        "group_instance_id": "12",
        "partition_assignment_strategy": "range, roundrobin",
        "request_timeout_ms": "soon",
    }
    assert typed_options(given) == {
        "acks": "1",
        "client_id": "7",
        "check_crcs": False,
        "linger_ms": 0.5,
        "compression_level": 3,
        "group_instance_id": "12",
        "partition_assignment_strategy": ("range", "roundrobin"),
        "request_timeout_ms": "soon",  # the client says what is wrong with it
    }


def test_a_client_gets_what_it_knows() -> None:
    with invoked(
        options(fetch_min_bytes="10", linger_ms="1", request_timeout_ms="9", client_id="me")
    ):
        assert settings_for(Admin, client_id="cli") == {"request_timeout_ms": 9, "client_id": "me"}
        assert settings_for(SharedTransaction) == {"request_timeout_ms": 9, "client_id": "me"}
        taken = settings_for(Consumer, max_poll_records=7)
        assert taken == {
            "max_poll_records": 7,
            "fetch_min_bytes": 10,
            "request_timeout_ms": 9,
            "client_id": "me",
        }
        assert settings_for(Producer)["linger_ms"] == 1


def test_the_commands_own_word_counts_where_it_was_typed() -> None:
    saved(acks="0")
    assert settings_for(Producer, acks="all") == {"acks": "0"}  # all is a default only
    with invoked(Invocation(given=frozenset({"acks"}))):
        assert settings_for(Producer, acks="1") == {"acks": "1"}
    twice = Invocation(options={"acks": "0"}, given=frozenset({"acks"}))
    with invoked(twice), pytest.raises(UsageError, match="--acks and -X acks"):
        settings_for(Producer, acks="1")


def test_every_word_of_commands_sets_an_option_that_is_known() -> None:
    assert set(clients.OWN_WORDS) <= set(known_options())
    words = {
        (parameter.name, option)
        for leaf in leaves()
        if leaf.path in ("consume", "produce")
        for parameter in leaf.click.params
        for option in parameter.opts
    }
    assert set(clients.OWN_WORDS.values()) <= words
    assert set(clients.ONLY_OWN_WORDS.values()) <= {option for _, option in words}


def test_clients_are_made_with_them() -> None:
    with invoked(options(request_timeout_ms="soon")):
        for make in (clients.admin, clients.consumer, clients.producer):
            with pytest.raises(ConfigurationError, match="request_timeout_ms='soon'"):
                make("a:1")


async def test_a_wrong_value_is_a_usage_error() -> None:
    shown = await oncelog("topics", "list", "-X", "request_timeout_ms=soon", bootstrap="a:1")
    assert (shown.code, shown.out) == (2, "")
    assert "request_timeout_ms='soon'" in shown.err
    shown = await oncelog("topics", "list", "-X", "nonsense=1", "--json", bootstrap="a:1")
    assert shown.code == 2
    assert shown.document["errors"][0]["error"] == "USAGE"


def test_no_command_makes_a_client_by_itself() -> None:
    """It would not be told of ``-X`` and profiles."""
    direct = [
        f"{path.name}:{node.lineno}: {node.func.id}(...)"
        for path in sources("cli")
        if path.parent.name == "commands"
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("Admin", "Consumer", "Producer")
    ]
    assert not direct, "use oncelog_cli.clients"


def test_what_takes_any_option_has_no_options_to_look_up() -> None:
    """All options of the command line would be left out, and nobody would notice."""

    def make(**options: object) -> None: ...

    with pytest.raises(TypeError, match="give the class whose options they are"):
        settings_for(make)


# ---- security ----------------------------------------------------------------------------------


def test_security_comes_from_all_places_too(monkeypatch: pytest.MonkeyPatch) -> None:
    assert client_security() is None
    save_profiles(
        Profiles("p", None, {"p": Profile("a:1", security={"ca_file": "p.pem", "tls": True})})
    )
    assert settings_for(Admin) == {"security": Security(ca_file="p.pem", tls=True)}
    assert client_options() == {}
    monkeypatch.setenv("ONCELOG_OPTIONS", "ssl.ca.location=~/e.pem linger_ms=1")
    monkeypatch.setenv("HOME", "/home/me")
    assert client_security() == Security(ca_file="/home/me/e.pem", tls=True)
    with invoked(options(server_name="x.org")):
        found = Security(ca_file="/home/me/e.pem", tls=True, server_name="x.org")
        assert settings_for(Producer) == {"linger_ms": 1, "security": found}
        assert settings_for(SharedTransaction) == {"security": found}
    with invoked(options(security_protocol="PLAINTEXT")):
        assert client_security() is None


def test_a_profile_that_says_what_security_does_not_know() -> None:
    save_profiles(Profiles("p", None, {"p": Profile("a:1", security={"cafile": "x"})}))
    with pytest.raises(UsageError, match="'cafile' is not known; did you mean 'ca_file'"):
        client_options()


def test_a_url_goes_before_the_profile() -> None:
    save_profiles(Profiles("p", None, {"p": Profile("a:1", security={"ca_file": "p.pem"})}))
    clients.admin("oncelogs://b:1")
    clients.admin("oncelog://b:1")
    with invoked(options(ca_file="x")), pytest.raises(ConfigurationError, match="say it once"):
        clients.admin("oncelogs://b:1")


async def test_a_command_over_tls(tmp_path: Path) -> None:
    papers = ClientPapers(tmp_path / "papers")
    async with FakeCluster(1, tls=papers.server()) as cluster:
        cluster.create_topic("t")
        secured = f"ca_file={papers.ca_file}"
        url = f"oncelogs://{cluster.bootstrap}?{secured}"
        for words in (["-X", secured, "-b", cluster.bootstrap], ["-b", url]):
            shown = await oncelog("topics", "list", "--json", *words)
            assert shown.code == 0, shown.err
            assert [row["topic"] for row in shown.document["topics"]] == ["t"]
        shown = await oncelog("topics", "list", "--json", "-X", "tls=true", "-b", cluster.bootstrap)
        assert shown.code == 1
        (error,) = shown.document["errors"]
        assert "not signed by a trusted CA" in error["message"]
        assert "name the CA that signed it" in shown.err

"""Each client takes the options that it has; another user has the same connection otherwise."""

from __future__ import annotations

import pytest

from oncelog import Security
from oncelog.errors import ConfigurationError
from oncelog_console.clients import ClusterClients


def test_options_go_to_who_has_them() -> None:
    clients = ClusterClients("localhost:1", None, {"request_timeout_ms": 7, "linger_ms": 3})
    clients.admin()
    clients.producer(acks=1)
    clients.consumer("orders", group_id=None)


def test_another_user_of_the_same_cluster() -> None:
    plain = ClusterClients("localhost:1")
    assert not plain.asks_for_user
    clients = ClusterClients("localhost:1", Security(username="console", password="p", tls=True))
    assert clients.asks_for_user
    other = clients.of_user("alice", "secret")
    assert other.security is not None
    assert (other.security.username, other.security.tls) == ("alice", True)
    assert "secret" not in repr(other)
    with pytest.raises(ConfigurationError):
        clients.of_user("", "")


def test_a_certificate_asks_for_no_user() -> None:
    security = Security(certificate_file="c.pem", key_file="k.pem")
    assert not ClusterClients("localhost:1", security).asks_for_user

"""Ports are tried with sockets of others. What brokers make of them is in ``test_machines``."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator

import pytest

from oncelog_testing.ports import Ports

HOST = "127.0.0.1"
held = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets ports be held")


@pytest.fixture
def ports() -> Iterator[Ports]:
    ports = Ports()
    yield ports
    ports.release()


@held
def test_a_port_is_ones_own_and_one_may_listen_there_again_and_again(ports: Ports) -> None:
    port = ports.of("internal", HOST)
    assert ports.of("external", HOST) != port
    for _ in range(2):
        with socket.create_server((HOST, port)), socket.create_connection((HOST, port)):
            assert ports.of("internal", HOST) == port


@held
def test_a_port_is_nobody_elses_until_it_is_released(ports: Ports) -> None:
    port = ports.of("internal", HOST)
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((HOST, port))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, port))
    ports.release()
    with socket.socket() as other:
        other.bind((HOST, port))


def test_where_somebody_listens_is_remembered(ports: Ports) -> None:
    ports.note({"internal": (HOST, 7_000)})
    assert ports.of("internal", HOST) == 7_000


def test_an_address_of_another_machine_has_no_port(ports: Ports) -> None:
    assert ports.of("internal", "192.0.2.1") == 0

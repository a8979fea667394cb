"""The door of a broker keeps its guests while the broker is dead."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from kafka_suites import doors
from oncelog_cli.local.broker import HOST
from oncelog_cli.local.cluster import LocalCluster
from oncelog_cli.local.process import free_port

DEADLINE_S = 10.0


def test_who_comes_to_a_dead_broker_waits_until_it_is_back(tmp_path: Path) -> None:
    cluster, port = cluster_at(tmp_path)
    with doors.doors(cluster) as bootstrap:
        assert bootstrap == f"{doors.DOORS_HOST}:{port}"
        guest = socket.create_connection((doors.DOORS_HOST, port), DEADLINE_S)
        guest.sendall(b"ask")
        with guest, socket.create_server((HOST, port)) as server:
            server.settimeout(DEADLINE_S)
            broker, _ = server.accept()
            with broker:
                assert broker.recv(100) == b"ask"
                broker.sendall(b"answer")
                assert guest.recv(100) == b"answer"
            assert ended(guest)


def test_a_broker_that_stays_dead_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doors, "PATIENCE_S", 0.0)
    cluster, port = cluster_at(tmp_path)
    threads = threading.active_count()
    address = (doors.DOORS_HOST, port)
    with doors.doors(cluster), socket.create_connection(address, DEADLINE_S) as guest:
        assert ended(guest)
    assert threading.active_count() == threads


def cluster_at(directory: Path) -> tuple[LocalCluster, int]:
    """Return a cluster of one broker that does not run, and the port of its Kafka listener."""
    cluster, port = LocalCluster(directory, brokers=1, kafka=True), free_port()
    cluster.broker(1).place(0, 0, 0, port)
    return cluster, port


def ended(guest: socket.socket) -> bool:
    """Return whether the other side ends the connection."""
    try:
        return guest.recv(100) == b""
    except ConnectionResetError:
        return True

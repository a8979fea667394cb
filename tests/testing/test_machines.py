"""Brokers are tried together with the machines that they run on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import socket
import struct
from pathlib import Path
from typing import Any

import pytest

from oncelog.errors import NoBrokersAvailableError
from oncelog_broker.config import ConfigError
from oncelog_broker.log.checkpoint import META
from oncelog_broker.phases import BrokerPhase
from oncelog_testing import Cluster
from support.cluster import Cluster as RealDisks

LAZY = {"flush": "interval", "flush_interval_ms": 3_600_000}
"""Acknowledged before it is synced: what a loss of power takes."""


@pytest.mark.oncelog(**LAZY)
@pytest.mark.parametrize(("power_loss", "left"), [(False, 10), (True, 0)])
def test_a_kill_loses_nothing_and_a_power_cut_what_was_not_synced(
    oncelog_cluster: Cluster, oncelog_topic: str, power_loss: bool, left: int
) -> None:
    oncelog_cluster.produce(oncelog_topic, ["x"] * 10)
    oncelog_cluster.kill(1, power_loss=power_loss)
    oncelog_cluster.start_broker(1)
    oncelog_cluster.wait_for_leader(oncelog_topic)
    assert len(oncelog_cluster.records(oncelog_topic)) == left


def test_committed_records_outlive_a_power_cut(
    oncelog_cluster: Cluster, oncelog_topic: str
) -> None:
    oncelog_cluster.produce(oncelog_topic, ["x"] * 10)
    oncelog_cluster.kill(1, power_loss=True)
    oncelog_cluster.start_broker(1)
    oncelog_cluster.wait_for_leader(oncelog_topic)
    assert len(oncelog_cluster.records(oncelog_topic)) == 10


@pytest.mark.parametrize("clean", [True, False])
def test_addresses_stay_the_same(oncelog_cluster: Cluster, oncelog_topic: str, clean: bool) -> None:
    bootstrap = oncelog_cluster.bootstrap
    oncelog_cluster.restart(1, clean=clean)
    assert oncelog_cluster.bootstrap == bootstrap
    oncelog_cluster.produce(oncelog_topic, ["x"])


def test_a_dead_brokers_port_refuses(oncelog_cluster: Cluster) -> None:
    from oncelog import blocking

    bootstrap = oncelog_cluster.bootstrap
    oncelog_cluster.kill(1)
    with pytest.raises(NoBrokersAvailableError), blocking.Admin(bootstrap):
        pass


@pytest.mark.parametrize("killed", [False, True])
def test_no_connection_is_given_the_port_of_a_broker_that_is_down(
    oncelog_cluster: Cluster, killed: bool
) -> None:
    port = int(oncelog_cluster.bootstrap.rpartition(":")[2])
    if killed:
        oncelog_cluster.kill(1)
    else:
        oncelog_cluster.stop_broker(1)
    with socket.create_server(("127.0.0.1", 0)) as somebody, socket.socket() as other:
        confine(other, port)
        with contextlib.suppress(OSError):  # none is left to give
            other.connect(somebody.getsockname())
        oncelog_cluster.start_broker(1)
    assert int(oncelog_cluster.bootstrap.rpartition(":")[2]) == port


def confine(outgoing: socket.socket, port: int) -> None:
    """The system may give a socket no other port; it chooses the port as it does for every other.

    IP_LOCAL_PORT_RANGE, Linux 6.3, has no name in Python yet: ip(7).
    """
    try:
        outgoing.setsockopt(socket.IPPROTO_IP, 51, struct.pack("=I", port | port << 16))
    except OSError:
        pytest.skip("this system cannot tell one socket which port to take")


def test_a_file_for_the_audit_is_refused_and_its_lines_are_in_the_log(
    oncelog_cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        pytest.raises(ConfigError, match=r"audit_log_file: .*logger oncelog\.audit"),
        Cluster(audit_log_file="audit.log"),
    ):
        pass
    with caplog.at_level("INFO", logger="oncelog.audit"):
        oncelog_cluster.create_topic("audited")
    found: list[Any] = [each.msg for each in caplog.records if each.name == "oncelog.audit"]
    assert [(line["event"], line["resource"]) for line in found] == [
        ("audit_change", "topic:audited")
    ]


def test_data_on_a_real_disk_stays_there(tmp_path: Path) -> None:
    with Cluster(directory=tmp_path) as cluster:
        topic = cluster.create_topic("kept")
        cluster.produce(topic, ["x"])
        cluster.restart(1, clean=False)
        cluster.wait_for_leader(topic)
        assert len(cluster.records(topic)) == 1
    assert (tmp_path / "broker-1" / "kept-0").is_dir()


def test_no_life_draws_the_ids_of_another(tmp_path: Path) -> None:
    """The directory id is such a draw: a replaced disk is not taken for the old one."""
    drawn = []
    with Cluster(directory=tmp_path) as cluster:
        for _ in range(3):
            meta = json.loads((tmp_path / "broker-1" / META).read_text())
            drawn.append(meta["directory_id"])
            cluster.stop_broker(1)
            shutil.rmtree(tmp_path / "broker-1")
            cluster.start_broker(1)
    assert len(set(drawn)) == 3, drawn


def test_settings_that_do_not_hold() -> None:
    with pytest.raises(ValueError, match="min_insync_replicas"):
        Cluster(min_insync_replicas=-1).start()
    with pytest.raises(ValueError, match="no_such_setting"):
        Cluster(no_such_setting=1).start()
    with pytest.raises(ValueError, match="at least one"):
        Cluster(0)


async def test_a_broker_that_fails_as_all_ends_is_stopped_to_its_end(tmp_path: Path) -> None:
    """A broker that is half stopped would keep its ports."""
    async with RealDisks(tmp_path, 1) as cluster:
        broker = cluster.brokers[1]
        broker.failed.set_exception(OSError("its last disk"))
        async with asyncio.timeout(15):
            while cluster.machine(1).broker is broker:
                await asyncio.sleep(0)  # not longer: what stops it must not be over
    assert broker.phase is BrokerPhase.STOPPED

"""Probes say whether a broker is live, started and ready."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog_broker.app import BrokerFailedError
from oncelog_broker.observability import probes
from oncelog_broker.observability.endpoint import Endpoint
from oncelog_broker.phases import BrokerPhase
from oncelog_controller import security_nodes
from oncelog_protocol.acl_state import AclState
from oncelog_runtime.observe import precise_time
from support.cluster import Cluster
from support.http_get import get, metrics
from support.observed import Observed, observed
from support.waiting import eventually


@pytest.mark.parametrize("phase", list(BrokerPhase))
async def test_a_broker_that_does_not_serve_is_live_and_not_ready(
    tmp_path: Path, phase: BrokerPhase
) -> None:
    broker = Cluster(tmp_path).make_broker(1)
    broker.phase = phase
    assert probes.live().ok
    verdict = probes.ready(broker)
    assert not verdict.ok, "not even while it serves: it has not registered"
    assert verdict.reasons
    started = probes.started(broker)
    assert started.ok == (phase in (BrokerPhase.SERVING, BrokerPhase.STOPPING))
    if not started.ok:
        assert phase.value in started.reasons[0]
    broker.failed.cancel()


async def test_recovery_tells_how_far_it_has_come(tmp_path: Path) -> None:
    broker = Cluster(tmp_path).make_broker(1)
    broker.phase = BrokerPhase.LOADING
    (progress,) = broker.logs.progress
    progress.logs_total, progress.logs_done = 90, 16
    progress.begin("/x/orders-3", 7)
    progress.one_segment()
    assert "log 17 of 90 (orders-3, segment 1 of 7)" in probes.started(broker).reasons[0]
    broker.failed.cancel()


async def statuses(seen: Observed) -> dict[str, int]:
    paths = ("/livez", "/startupz", "/readyz")
    return {path: (await seen.get(path)).status for path in paths}


HEALTHY = {"/livez": 200, "/startupz": 200, "/readyz": 200}
NOT_READY = {**HEALTHY, "/readyz": 503}


async def test_zookeeper_lost_and_session_expired(tmp_path: Path) -> None:
    """Lost contact is a warning; an expired session is a fence; neither is a reason to restart."""
    async with observed(tmp_path) as seen:
        cluster = seen.cluster
        assert await statuses(seen) == HEALTHY
        assert (await seen.get("/readyz")).document == {
            "status": "ready",
            "ok": True,
            "broker_id": 1,
        }
        store, session = cluster.machine(1).store, cluster.machine(1).session_id
        assert store is not None
        cluster.zookeeper.disconnect(session)
        await eventually(lambda: "no contact" in str(probes.ready(cluster.brokers[1]).warnings))
        assert await statuses(seen) == HEALTHY
        verdicts: list[probes.ProbeVerdict] = []
        store.on_session.append(lambda _: verdicts.append(probes.ready(cluster.brokers[1])))
        cluster.zookeeper.expire(session)
        cluster.zookeeper.reconnect(session)
        await eventually(lambda: verdicts)
        assert (verdicts[0].ok, verdicts[0].status) == (False, "fenced")
        assert "expired" in verdicts[0].reasons[0]
        await eventually(lambda: probes.ready(cluster.brokers[1]).ok, timeout_s=15)
        assert (await seen.metrics())["oncelog_broker_registrations_total"][()] == 2


async def test_a_broker_that_registers_again_is_fenced_until_it_has(tmp_path: Path) -> None:
    """It is seen through the port; it cannot register while the store does not answer."""
    async with observed(tmp_path) as seen:
        lifecycle = seen.cluster.brokers[1].lifecycle
        assert lifecycle is not None
        lifecycle._renewing = True
        got = await seen.get("/readyz")
        assert (got.status, got.document["status"]) == (503, "fenced")
        assert await statuses(seen) == NOT_READY
        lifecycle._renewing = False
        assert await statuses(seen) == HEALTHY


async def test_a_broker_that_cannot_know_what_was_revoked_is_not_ready(tmp_path: Path) -> None:
    async with observed(tmp_path, authorizer="acl", security_stale_max_ms=1000) as seen:
        assert await statuses(seen) == HEALTHY
        broker = seen.cluster.brokers[1]
        store = broker.metadata_store
        await store.set(security_nodes.VERSION, security_nodes.encode_version(2))
        await eventually(lambda: broker.security_watch.refusal)
        got = await seen.get("/readyz")
        assert (got.status, got.document["status"]) == (503, "stale")
        assert "the store has a newer version" in got.document["reasons"][0]
        assert await statuses(seen) == NOT_READY
        await store.set(security_nodes.VERSION, security_nodes.encode_version(1))
        broker.acls.replace(AclState(2))
        await eventually(lambda: not broker.security_watch.refusal)
        assert await statuses(seen) == HEALTHY


async def test_failing_and_stopping(tmp_path: Path) -> None:
    broker = Cluster(tmp_path, metrics_port=0).make_broker(1)
    endpoint = Endpoint(broker, precise_time)
    await endpoint.start()
    await broker.start()
    broker.failed.set_exception(BrokerFailedError("the disk is gone"))
    got = await get(endpoint.address, "/readyz")
    assert (got.status, got.document["status"]) == (503, "failed")
    assert "the disk is gone" in got.document["reasons"][0]
    await broker.stop(clean=False)
    got = await get(endpoint.address, "/readyz")
    assert got.status == 503
    got = await get(endpoint.address, "/startupz")
    assert (got.status, got.document["status"]) == (503, "stopped")
    assert (await get(endpoint.address, "/livez")).status == 200
    assert (await metrics(endpoint.address))["oncelog_broker_ready"][()] == 0
    await endpoint.close()


async def test_one_directory_of_two_offline_is_a_warning(tmp_path: Path) -> None:
    dirs = [str(tmp_path / name) for name in ("a", "b")]
    async with observed(tmp_path, log_dirs=dirs) as seen:
        broken = seen.cluster.brokers[1].logs.dirs[0]
        broken.fail("sync", OSError(5, "Input/output error"))
        got = await seen.get("/readyz")
        assert got.status == 200
        assert broken.path in got.document["warnings"][0]
        samples = (await seen.metrics())["oncelog_log_dir_online"]
        assert samples == {(dirs[0],): 0, (dirs[1],): 1}

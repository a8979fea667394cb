"""Real processes answer probes and metrics, while a real ZooKeeper goes away and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from integration.processes import DEADLINE_S, POLL_S, SETTINGS, Processes
from support.http_get import get, metrics

pytestmark = [pytest.mark.integration, pytest.mark.zookeeper]


async def until(condition: Callable[[], Awaitable[object]], what: str) -> None:
    async def poll() -> None:
        while not await condition():
            await asyncio.sleep(POLL_S)

    try:
        await asyncio.wait_for(poll(), DEADLINE_S)
    except TimeoutError:
        raise AssertionError(f"not within {DEADLINE_S} s: {what}") from None


async def readiness(processes: Processes) -> dict[int, Any]:
    answers = {i: await get(processes.http(i), "/readyz") for i in processes.broker_ids}
    for answer in answers.values():
        assert (answer.status == 200) == answer.document["ok"]
    return {broker_id: answer.document for broker_id, answer in answers.items()}


async def all_ready(processes: Processes) -> bool:
    documents = (await readiness(processes)).values()
    return all(each["ok"] and "warnings" not in each for each in documents)


async def total(processes: Processes, metric: str) -> float:
    pages = [await metrics(processes.http(i)) for i in processes.broker_ids]
    return sum(sum(page.get(metric, {}).values()) for page in pages)


async def test_three_processes_are_ready_and_one_is_controller(processes: Processes) -> None:
    await processes.heal()
    await until(lambda: all_ready(processes), "all are ready")
    for broker_id in processes.broker_ids:
        status = processes.cluster.status()["processes"][broker_id]
        assert status["http"] == "{}:{}".format(*processes.http(broker_id))
        for path in ("/livez", "/startupz", "/readyz"):
            assert (await get(processes.http(broker_id), path)).status == 200
    assert await total(processes, "oncelog_active_controller") == 1
    assert await total(processes, "oncelog_scrape_errors_total") == 0
    assert await total(processes, "oncelog_assertions_failed_total") == 0


async def test_without_zookeeper_brokers_stay_ready_and_say_so(processes: Processes) -> None:
    processes.stop_zookeeper()

    async def told() -> bool:
        documents = (await readiness(processes)).values()
        assert all(each["ok"] for each in documents), "a session has not ended by silence alone"
        return all("no contact" in str(each.get("warnings")) for each in documents)

    try:
        await until(told, "all say that they have no contact")
        assert await total(processes, "oncelog_zookeeper_connected") == 0
        assert await total(processes, "oncelog_active_controller") == 0
    finally:
        processes.start_zookeeper()
    await until(lambda: all_ready(processes), "all are ready again")

    async def one_controller() -> bool:
        return await total(processes, "oncelog_active_controller") == 1

    await until(one_controller, "there is a controller")


async def test_a_broker_that_slept_too_long_registers_again(processes: Processes) -> None:
    broker_id = processes.broker_ids[0]
    address = processes.http(broker_id)
    before = (await metrics(address))["oncelog_broker_registrations_total"][()]
    processes.pause(broker_id)
    try:
        await asyncio.sleep(SETTINGS["zookeeper_session_timeout_ms"] / 1000 + 1)
    finally:
        processes.resume(broker_id)

    async def registered() -> bool:
        page = await metrics(address)
        return page["oncelog_broker_registrations_total"][()] > before

    await until(registered, "it has registered again")
    await until(lambda: all_ready(processes), "all are ready again")
    assert (await get(address, "/livez")).status == 200
    assert (await metrics(address))["oncelog_event_loop_lag_seconds_sum"][()] > 2.0

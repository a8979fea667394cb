"""Elections have one winner an epoch; replies get lost, terms are deposed [Z1] [Z2]."""

from __future__ import annotations

import asyncio

import pytest

from oncelog_controller import znodes
from oncelog_controller.campaign import Campaign, Incumbent, Won, elected, elected_in
from oncelog_controller.features import UnknownFeatureError
from oncelog_controller.loader import prepare_store
from oncelog_controller.store import StoreDisconnectedError, WatchEvent
from oncelog_protocol.errors import BrokerNotAvailableError
from oncelog_testing.memory.store import MemoryMetadataStore, MemoryZooKeeper
from support.waiting import eventually


def ignore(_: WatchEvent) -> None:
    pass


async def client(server: MemoryZooKeeper) -> MemoryMetadataStore:
    store = MemoryMetadataStore(server)
    await store.start()
    await prepare_store(store)
    return store


async def test_the_first_controller_has_epoch_one() -> None:
    server = MemoryZooKeeper()
    store = await client(server)
    assert await Campaign(store, 7).run(ignore) == Won(1, 1)
    assert znodes.decode_controller(server.data(znodes.CONTROLLER) or b"") == (7, 1)
    assert znodes.decode_epoch(server.data(znodes.CONTROLLER_EPOCH) or b"") == 1


async def test_of_five_exactly_one_wins_each_epoch() -> None:
    server = MemoryZooKeeper()
    stores = {broker_id: await client(server) for broker_id in range(1, 6)}
    for epoch in range(1, 6):
        outcomes = await asyncio.gather(
            *(Campaign(store, broker_id).run(ignore) for broker_id, store in stores.items())
        )
        winners = [outcome for outcome in outcomes if isinstance(outcome, Won)]
        assert winners == [Won(epoch, epoch)]
        seen = {o.controller_epoch for o in outcomes if isinstance(o, Incumbent)}
        assert seen <= {epoch}
        (winner,) = [b for b, o in zip(stores, outcomes, strict=True) if isinstance(o, Won)]
        await stores.pop(winner).close()


@pytest.mark.parametrize("lost", ["reply", "request"])
async def test_a_lost_election_reply_is_found_out_by_reading(lost: str) -> None:
    server = MemoryZooKeeper()
    store = await client(server)
    campaign = Campaign(store, 1)
    await store.create(znodes.CONTROLLER_EPOCH, znodes.encode_epoch(4))
    assert store.session_id is not None
    getattr(server, f"lose_{lost}")(store.session_id)
    with pytest.raises(StoreDisconnectedError):
        await campaign.run(ignore)
    await eventually(lambda: store.state.value == "connected")
    assert await campaign.run(ignore) == Won(5, 1)


async def test_a_release_that_does_not_know_a_feature_does_not_run() -> None:
    server = MemoryZooKeeper()
    store = await client(server)
    await store.create(znodes.FEATURES, b'{"version":1,"features":{"tomorrow":1}}')
    with pytest.raises(UnknownFeatureError, match="tomorrow"):
        await Campaign(store, 7).run(ignore)
    assert await store.exists(znodes.CONTROLLER) is None
    await store.close()


async def test_the_watch_tells_of_the_end() -> None:
    server = MemoryZooKeeper()
    first, second = await client(server), await client(server)
    won = await Campaign(first, 1).run(ignore)
    assert isinstance(won, Won)
    seen: list[WatchEvent] = []
    outcome = await Campaign(second, 2).run(seen.append)
    assert isinstance(outcome, Incumbent)
    assert (outcome.broker_id, outcome.controller_epoch) == (1, 1)
    await Campaign(first, 1).step_down(won)
    await eventually(lambda: seen)
    assert await Campaign(second, 2).run(ignore) == Won(2, 2)


async def test_deposing_hits_only_the_one_that_was_looked_at() -> None:
    server = MemoryZooKeeper()
    first, second, third = [await client(server) for _ in range(3)]
    await Campaign(first, 1).run(ignore)
    seen_by_second = await Campaign(second, 2).run(ignore)
    seen_by_third = await Campaign(third, 3).run(ignore)
    assert isinstance(seen_by_second, Incumbent)
    assert isinstance(seen_by_third, Incumbent)
    assert await Campaign(second, 2).depose(seen_by_second)
    assert not await Campaign(third, 3).depose(seen_by_third), "it is gone already"
    assert await Campaign(second, 2).run(ignore) == Won(2, 2)
    assert not await Campaign(third, 3).depose(seen_by_third), "another one is there"
    assert znodes.decode_controller(server.data(znodes.CONTROLLER) or b"") == (2, 2)


async def test_stepping_down_late_does_no_harm() -> None:
    server = MemoryZooKeeper()
    first, second = await client(server), await client(server)
    won = await Campaign(first, 1).run(ignore)
    assert isinstance(won, Won)
    incumbent = await Campaign(second, 2).run(ignore)
    assert isinstance(incumbent, Incumbent)
    await Campaign(second, 2).depose(incumbent)
    await Campaign(second, 2).run(ignore)
    await Campaign(first, 1).step_down(won)
    assert znodes.decode_controller(server.data(znodes.CONTROLLER) or b"") == (2, 2)
    server.disconnect(first.session_id or 0)
    await Campaign(first, 1).step_down(won)


async def test_an_earlier_life_under_the_same_id_is_somebody_else() -> None:
    server = MemoryZooKeeper()
    old, new = await client(server), await client(server)
    await Campaign(old, 1).run(ignore)
    assert isinstance(await Campaign(new, 1).run(ignore), Incumbent)


async def test_who_is_controller_can_be_read_by_anybody() -> None:
    server = MemoryZooKeeper()
    store, other = await client(server), await client(server)
    assert await elected(other) == (-1, -1)
    won = await Campaign(store, 7).run(ignore)
    assert isinstance(won, Won)
    assert await elected(other) == (7, 1)
    await Campaign(store, 7).step_down(won)
    assert await elected(other) == (-1, 1)
    assert await elected_in(other)() == (-1, 1)
    assert other.session_id is not None
    server.disconnect(other.session_id)
    with pytest.raises(BrokerNotAvailableError):
        await elected_in(other)()


async def test_looking_is_not_running() -> None:
    server = MemoryZooKeeper()
    store, other = await client(server), await client(server)
    seen: list[WatchEvent] = []
    campaign = Campaign(other, 8)
    assert await campaign.look(seen.append) is None
    assert server.data(znodes.CONTROLLER) is None
    await Campaign(store, 7).run(ignore)
    await eventually(lambda: seen)
    found = await campaign.look(ignore)
    assert isinstance(found, Incumbent)
    assert found.broker_id == 7

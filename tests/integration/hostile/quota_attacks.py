"""These attacks want more than a quota allows, or a quota that is none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from integration.hostile.attack import Attack
from integration.hostile.target import USER, Target
from oncelog_protocol.errors import InvalidRequestError, ThrottlingQuotaExceededError
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog_protocol.messages.quotas import (
    AlterQuotasRequest,
    AlterQuotasResponse,
    DescribeQuotasRequest,
    QuotaChange,
)
from oncelog_protocol.quotas import (
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_RATE,
    EntityQuotas,
    QuotaEntity,
    QuotaFilter,
)
from oncelog_protocol.records.builder import encode_batch
from support.hand_records import fetch_values, produce
from support.server import HELLO, RawPeer, frame, request_head

NO_QUOTAS = (-1.0, -0.5, float("nan"), float("inf"), float("-inf"), 2.0**63)
TOPIC = "t"
RATE = 20_000
FIRST = bytes(80_000)
"""It takes a client that may write ``RATE`` bytes a second three seconds to pay for it."""
NOT_READ_S = 0.3
"""What is held for seconds is certainly not answered within so long."""


async def no_quotas(target: Target) -> None:
    """Set what is no quota; 0 is one, and stops."""
    changes = [_change(PRODUCER_BYTE_RATE, value) for value in NO_QUOTAS]
    response = await _set(target, *changes, _change(CONSUMER_BYTE_RATE, 0))
    codes = [result.error_code for result in response.results]
    assert codes == [*[InvalidRequestError.code] * len(NO_QUOTAS), 0]
    admin = await target.channel("certified", name="admin")
    described = await target.ask(admin, DescribeQuotasRequest(QuotaFilter()))
    assert described.quotas == [EntityQuotas.of(QuotaEntity(USER), [(CONSUMER_BYTE_RATE, 0)])]
    assert (await produce(admin, TOPIC, 0, [b"v"])).error_code == 0
    stopped = await target.user()
    wanted = [FetchTopic(TOPIC, [FetchPartition(0, 0, 1 << 20)])]
    fetched = await target.ask(stopped, FetchRequest(-1, -1, 50, 1, 1 << 20, 0, -1, wanted))
    assert fetched.error_code == ThrottlingQuotaExceededError.code
    await _set(target, _change(CONSUMER_BYTE_RATE, None))
    assert await fetch_values(await target.user(), TOPIC, 0) == [b"v"]


async def many_client_ids(target: Target) -> None:
    """Ask in the name of another client id each time; they share what their user may have."""
    await _set(target, _change(REQUEST_RATE, 3))
    peer = await _peer(target)
    asked = [_metadata(number) for number in range(1000)]
    peer.send(b"".join(asked))
    assert (await peer.response())[0] == 0
    await _is_held(peer)
    another = await _peer(target)
    another.send(asked[1] + asked[2])
    assert (await another.response())[0] == 1
    await _is_held(another)


async def flood_without_answers(target: Target) -> None:
    """Write without waiting for answers. What is over the quota is not read; nothing is lost."""
    admin = await target.channel("certified", name="admin")
    await _set(target, _change(PRODUCER_BYTE_RATE, 100_000))
    sent = [b"%04d" % number + bytes(3000) for number in range(60)]
    slowed = await _peer(target)
    slowed.send(b"".join(_writes(sent, acks=0)) + _metadata(7))
    assert (await slowed.response(15))[0] == 7
    assert await fetch_values(admin, TOPIC, 0) == sent
    await _set(target, _change(PRODUCER_BYTE_RATE, RATE))
    held = await _peer(target)
    held.send(b"".join(_writes([FIRST, *[bytes(3000)] * 1000], acks=0)))
    while not (found := await fetch_values(admin, TOPIC, 0, len(sent), wait_ms=50)):
        await asyncio.sleep(0)
    for _ in range(3):
        assert found == [FIRST]
        found = await fetch_values(admin, TOPIC, 0, len(sent), wait_ms=50)
    await _set(target, _change(PRODUCER_BYTE_RATE, None))


async def goes_on_sending(target: Target) -> None:
    """Send megabytes after having been told to wait: nothing of it is taken."""
    await _set(target, _change(PRODUCER_BYTE_RATE, RATE))
    peer = await _peer(target)
    peer.send(b"".join(_writes([FIRST, *[bytes(50_000)] * 200], acks=1)))
    _, answer, _ = await peer.response()
    assert answer[0] == 0
    await _is_held(peer)
    admin = await target.channel("certified", name="admin")
    assert await fetch_values(admin, TOPIC, 0) == [FIRST]
    await _set(target, _change(PRODUCER_BYTE_RATE, None))


def _change(key: str, value: float | None) -> QuotaChange:
    return QuotaChange(USER, None, None, key, value)


async def _set(target: Target, *changes: QuotaChange) -> AlterQuotasResponse:
    admin = await target.channel("certified", name="admin")
    response: AlterQuotasResponse = await target.ask(admin, AlterQuotasRequest(list(changes)))
    assert response.error_code == 0
    admin.close()
    return response


async def _peer(target: Target) -> RawPeer:
    """Return a peer that is known by its certificate, and sends what it likes."""
    context = target.context()
    context.load_cert_chain(*target.papers.issue(USER))
    peer = await target.raw("certified", context)
    peer.send(HELLO)
    await peer.response()
    return peer


async def _is_held(peer: RawPeer) -> None:
    try:
        answer = await peer.response(NOT_READ_S)
    except TimeoutError:
        return
    raise AssertionError(f"it is not held: {answer}")


def _metadata(number: int) -> bytes:
    """Return a request of a client id of its own."""
    head = request_head(
        ApiKey.METADATA, [[TOPIC], False], correlation_id=number, client_id=f"client-{number}"
    )
    return frame(head)


def _writes(values: Iterable[bytes], *, acks: int) -> list[bytes]:
    """Return a request for each record."""
    batches = [bytes(encode_batch([value], timestamps=0)) for value in values]
    return [
        frame(
            request_head(ApiKey.PRODUCE, [None, acks, 1000, [[TOPIC, [[0, [0, len(batch)]]]]]]),
            batch,
        )
        for batch in batches
    ]


ATTACKS = (
    Attack(47, no_quotas),
    Attack(48, many_client_ids),
    Attack(49, flood_without_answers),
    Attack(50, goes_on_sending),
)

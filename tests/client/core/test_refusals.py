"""A client tries again what TLS or authentication refused, three times, and then says so."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from oncelog.config import Address, ConnectionOptions
from oncelog.core.connection import DATA
from oncelog.core.refusals import ATTEMPTS, Refusals, refusal_of
from oncelog.core.router import Router
from oncelog.errors import (
    AuthenticationFailedError,
    BrokerUnreachableError,
    HandshakeError,
    IllegalSaslStateError,
    SaslAuthenticationFailedError,
    TlsError,
    UnsupportedSaslMechanismError,
    is_retriable,
)
from oncelog_protocol.messages.metadata import DescribeClusterRequest
from oncelog_runtime import tls_errors
from oncelog_runtime.channel import ClientMachine, RequestChannel
from oncelog_runtime.dialer import PLAIN
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import FakeCluster
from support.waiting import eventually

HERE = Address("h", 9)
ELSEWHERE = Address("e", 9)
NOT_TRUSTED = tls_errors.TlsError("the certificate is not trusted", "name its CA")


class Refusing:
    """It is a dialer whose attempts fail with ``error``, at ``port`` or everywhere."""

    def __init__(self, error: Exception | None = NOT_TRUSTED) -> None:
        self.error = error
        self.port: int | None = None
        self.attempts = 0
        self.attempts_max = 1_000_000
        """Further ones succeed."""

    async def open(
        self, host: str, port: int, machine: ClientMachine, *, connect_timeout_s: float
    ) -> RequestChannel:
        is_over = self.attempts == self.attempts_max
        if self.error is not None and not is_over and self.port in (None, port):
            self.attempts += 1
            raise self.error
        return await PLAIN.open(host, port, machine, connect_timeout_s=connect_timeout_s)


def make(servers: str, dialer: Refusing) -> Router:
    options = ConnectionOptions(
        bootstrap_servers=servers, retry_backoff_ms=1, retry_backoff_max_ms=2
    )
    return Router(options, entropy=SeededEntropy(1), dialer=dialer)


def soon() -> float:
    return asyncio.get_running_loop().time() + 5


# ---- what is told ------------------------------------------------------------------------------


def test_the_third_refusal_in_a_row_is_told() -> None:
    refusals = Refusals()
    assert refusals.judge(HERE, NOT_TRUSTED) is None
    assert refusals.judge(HERE, ConnectionResetError()) is None
    assert refusals.judge(ELSEWHERE, NOT_TRUSTED) is None
    assert refusals.judge(HERE, NOT_TRUSTED) is None
    assert refusals.verdict is None
    told = refusals.judge(HERE, NOT_TRUSTED)
    assert isinstance(told, TlsError)
    assert str(told) == "h:9: the certificate is not trusted: name its CA"
    assert (told.cause, told.remedy) == (NOT_TRUSTED.cause, NOT_TRUSTED.remedy)
    assert told.__cause__ is NOT_TRUSTED
    assert str(refusals.verdict) == str(told)
    assert refusals.verdict is not told
    refusals.ended(HERE)
    assert refusals.verdict is None
    assert refusals.judge(HERE, NOT_TRUSTED) is None


def test_addresses_that_nobody_dials_any_more_are_forgotten() -> None:
    refusals = Refusals()
    for _ in range(ATTEMPTS):
        refusals.judge(HERE, NOT_TRUSTED)
    refusals.keep({HERE})
    assert refusals.verdict is not None
    refusals.keep({ELSEWHERE})
    assert refusals.verdict is None


@pytest.mark.parametrize(
    "error",
    [SaslAuthenticationFailedError(), UnsupportedSaslMechanismError(), IllegalSaslStateError()],
)
def test_an_authentication_that_fails_says_what_to_do(error: Exception) -> None:
    told = refusal_of(HERE, error)
    assert isinstance(told, AuthenticationFailedError)
    assert told.remedy
    assert not is_retriable(told)
    assert isinstance(told, ConnectionError)


def test_other_failures_are_none() -> None:
    assert refusal_of(HERE, ConnectionRefusedError()) is None
    assert refusal_of(HERE, None) is None


# ---- how a client hears of it ------------------------------------------------------------------


async def test_start_tries_three_times_and_says_why() -> None:
    dialer = Refusing()
    with pytest.raises(TlsError, match="h:9: the certificate is not trusted: name its CA"):
        await make("h:9", dialer).start()
    assert dialer.attempts == ATTEMPTS


async def test_a_failure_that_passes_is_not_heard_of() -> None:
    dialer = Refusing()
    async with FakeCluster(1) as cluster:
        dialer.attempts_max = ATTEMPTS - 1
        router = make(cluster.bootstrap, dialer)
        await router.start()
        await router.close()


async def test_another_address_that_serves_is_enough() -> None:
    dialer = Refusing()
    async with FakeCluster(1) as cluster:
        dialer.port = 9
        router = make(f"127.0.0.1:9,{cluster.bootstrap}", dialer)
        await router.start()
        await router.close()


async def test_an_advertised_address_that_is_refused() -> None:
    dialer = Refusing()
    async with FakeCluster(1) as cluster:
        dialer.port = cluster.brokers[1].advertised_port = 9
        with pytest.raises(TlsError, match=":9: the certificate is not trusted"):
            await make(cluster.bootstrap, dialer).start()
    assert dialer.attempts == ATTEMPTS


async def test_a_broker_that_begins_to_refuse_is_named_by_calls() -> None:
    dialer = Refusing(None)
    async with FakeCluster(2) as cluster:
        cluster.create_topic("t")
        router = make(cluster.bootstrap, dialer)
        await router.start()
        dialer.error, dialer.port = SaslAuthenticationFailedError(), cluster.brokers[2].port
        with pytest.raises(AuthenticationFailedError):
            await router.retry(
                lambda: router.call_broker(2, DescribeClusterRequest(), soon(), DATA),
                soon(),
                "asking",
            )
        assert dialer.attempts == ATTEMPTS
        await router.call_any(DescribeClusterRequest(), soon())
        dialer.error = None
        await eventually(lambda: router.connections._slots[2, DATA].retry_at < soon() - 5)
        assert await router.call_broker(2, DescribeClusterRequest(), soon(), DATA)
        await router.close()


async def test_calls_end_when_nobody_serves_any_more() -> None:
    dialer = Refusing(None)
    async with FakeCluster(1) as cluster:
        router = make(cluster.bootstrap, dialer)
        await router.start()
        dialer.error = NOT_TRUSTED
        await cluster.brokers[1].stop()
        with pytest.raises(TlsError):
            await router.topic("t", soon())
        with pytest.raises(HandshakeError):
            await router.call_any(DescribeClusterRequest(), soon())
        await router.close()


async def test_each_waiter_has_an_error_of_its_own() -> None:
    dialer = Refusing(None)
    async with FakeCluster(2) as cluster:
        router = make(cluster.bootstrap, dialer)
        await router.start()
        dialer.error, dialer.port = NOT_TRUSTED, cluster.brokers[2].port

        async def failure() -> BaseException:
            with pytest.raises((HandshakeError, BrokerUnreachableError)) as caught:
                await router.connections.channel(2, DATA)
            return caught.value

        found: Sequence[BaseException] = ()
        while not (found and isinstance(found[-1], TlsError)):
            found = await asyncio.gather(failure(), failure())
        assert found[0] is not found[1]
        await router.close()

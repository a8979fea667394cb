"""Peers authenticate before anything else, and are these users until their sessions end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from oncelog_broker.server.handlers import authenticate
from oncelog_broker.server.handlers.authenticate import AuthenticateHandler
from oncelog_broker.server.listener_security import ListenerSecurity
from oncelog_broker.server.quotas import ConnectionLimits
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_broker.server.users import Users
from oncelog_protocol.connection import ClientConnection
from oncelog_protocol.errors import (
    IllegalSaslStateError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from oncelog_protocol.messages.authentication import AuthenticateRequest
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.metadata import MetadataRequest, MetadataResponse
from oncelog_protocol.sasl.client_authentication import ClientAuthentication
from oncelog_protocol.sasl.credential import KeptKeys, Mechanism
from oncelog_protocol.sasl.scram_client import ScramClient
from oncelog_protocol.sasl.server_authentication import SaslPorts
from oncelog_protocol.sasl.user import ScramUser
from oncelog_protocol.types import NO_BROKER
from oncelog_runtime.channel import RequestChannel
from oncelog_runtime.clock import SystemWallClock
from oncelog_runtime.dialer import PLAIN, AuthenticatingDialer
from oncelog_runtime.entropy import SeededEntropy
from simulation.loop import SimLoop
from simulation.play import play
from support.room_settings import connection_settings
from support.sasl import CREDENTIALS, SECRET, SHA_256, SHA_512
from support.server import ServerUnderTest, make_context
from support.waiting import eventually

KEPT = KeptKeys()


class Asked:
    """It is a handler that notes who asks."""

    def __init__(self) -> None:
        self.by: list[tuple[str, int | None]] = []

    def handle(
        self, context: RequestContext, request: Any, payload: memoryview, respond: Respond
    ) -> None:
        self.by.append((context.principal, context.broker_id))
        respond(MetadataResponse("c", 1))


def one_user() -> Users:
    """Return what a broker knows of the only user."""
    users = Users(SECRET)
    credentials = tuple(CREDENTIALS[each] for each in (SHA_256, SHA_512))
    users.replace(1, SECRET, [ScramUser("user", 1, credentials)])
    return users


def handler_of(
    users: Users, mechanisms: tuple[Mechanism, ...], reauth_ms_max: int = 0
) -> AuthenticateHandler:
    return AuthenticateHandler(
        lambda _: SaslPorts(mechanisms, users.look_up, SECRET),
        users=users,
        entropy=SeededEntropy(1),
        clock=SystemWallClock(),
        reauth_ms_max=reauth_ms_max,
    )


@asynccontextmanager
async def serving(
    *,
    internal: bool = False,
    mechanisms: tuple[Mechanism, ...] = (SHA_256,),
    reauth_ms_max: int = 0,
    broker_principal: str = "User:broker-{id}",
    users: Users | None = None,
    limits: ConnectionLimits | None = None,
) -> AsyncIterator[tuple[ServerUnderTest, Asked]]:
    asked = Asked()
    handler = handler_of(users or one_user(), mechanisms, reauth_ms_max)
    security = ListenerSecurity(
        proves_peers=True, sasl=mechanisms, broker_principal=broker_principal
    )
    handlers = {ApiKey.METADATA: asked}
    slow = {ApiKey.AUTHENTICATE: handler}
    async with ServerUnderTest(
        handlers, slow, internal=internal, security=security, limits=limits
    ) as server:
        yield server, asked


def exchange(name: str = "user", password: str = "pencil") -> ClientAuthentication:
    nonce = bytes(range(24))
    return ClientAuthentication(
        [ScramClient(SHA_256, name, password, nonce, KEPT)], encrypted=False
    )


async def dialled(
    server: ServerUnderTest,
    begin: Callable[[], ClientAuthentication] = exchange,
    own_broker_id: int = NO_BROKER,
) -> RequestChannel:
    machine = ClientConnection("test", own_broker_id=own_broker_id)

    async def begun() -> ClientAuthentication:
        return begin()

    dialer = AuthenticatingDialer(PLAIN, begun, lambda: 0.5)
    return await dialer.open(*server.address, machine, connect_timeout_s=5)


async def authenticates(channel: RequestChannel, begun: ClientAuthentication) -> None:
    request = begun.start()
    while request is not None:
        answer = (await channel.call(request, timeout_s=5)).message
        following = begun.next(answer)
        if following is None:
            return
        request = following


async def test_who_has_authenticated_is_served_by_that_name() -> None:
    async with serving() as (server, asked):
        channel = await dialled(server)
        await channel.call(MetadataRequest(None), timeout_s=5)
        assert asked.by == [("User:user", None)]


@pytest.mark.hostile(15)
async def test_nothing_is_served_before() -> None:
    async with serving() as (server, asked):
        channel = await server.channel()
        reply = await channel.call(MetadataRequest(None), timeout_s=5)
        assert reply.message.error_code == IllegalSaslStateError.code
        await eventually(lambda: channel.closed)
        assert asked.by == []


@pytest.mark.parametrize(("name", "password"), [("user", "pen"), ("nobody", "pencil")])
async def test_a_failure_says_no_cause_and_ends_the_connection(name: str, password: str) -> None:
    async with serving() as (server, _):
        with pytest.raises(SaslAuthenticationFailedError, match="is not right"):
            await dialled(server, lambda: exchange(name, password))
        await eventually(lambda: not server.listener.connections)


async def test_another_mechanism_is_named() -> None:
    async with serving(mechanisms=(SHA_512,)) as (server, _):
        with pytest.raises(UnsupportedSaslMechanismError, match="it takes SCRAM-SHA-512"):
            await dialled(server)


@pytest.mark.parametrize(
    ("own_broker_id", "principal", "found"),
    [
        (2, "User:user", 2),
        (2, "User:broker-{id}", None),
        (NO_BROKER, "User:user", None),
    ],
)
async def test_a_broker_is_who_authenticated_as_one(
    own_broker_id: int, principal: str, found: int | None
) -> None:
    async with serving(internal=True, broker_principal=principal) as (server, asked):
        channel = await dialled(server, own_broker_id=own_broker_id)
        await channel.call(MetadataRequest(None), timeout_s=5)
        assert asked.by == [("User:user", found)]


@pytest.mark.hostile(34)
async def test_a_session_ends_without_another_authentication() -> None:
    async with serving(reauth_ms_max=50) as (server, _):
        channel = await server.channel()
        begun = exchange()
        await authenticates(channel, begun)
        assert begun.session_ms == 50
        await eventually(lambda: channel.closed)


@pytest.mark.hostile(33)
async def test_the_same_user_may_authenticate_again_and_no_other() -> None:
    async with serving() as (server, asked):
        channel = await dialled(server)
        await authenticates(channel, exchange())
        await channel.call(MetadataRequest(None), timeout_s=5)
        assert asked.by == [("User:user", None)]
        with pytest.raises(SaslAuthenticationFailedError):
            await authenticates(channel, exchange("nobody"))
        await eventually(lambda: channel.closed)


async def test_a_dialer_authenticates_again_before_the_session_ends() -> None:
    begun: list[ClientAuthentication] = []

    class Often(ClientAuthentication):
        """It authenticates again at once."""

        def again_after_ms(self, chance: float) -> int:
            return 1

    def begin() -> ClientAuthentication:
        machine = ScramClient(SHA_256, "user", "pencil", bytes(range(24)), KEPT)
        begun.append(Often([machine], encrypted=False))
        return begun[-1]

    async with serving(reauth_ms_max=600_000) as (server, _):
        channel = await dialled(server, begin)
        await eventually(lambda: len(begun) > 3)
        await channel.call(MetadataRequest(None), timeout_s=5)
        channel.close()


async def test_a_session_goes_on_while_there_is_nothing_to_show() -> None:
    begun: list[ClientAuthentication | None] = []

    class Often(ClientAuthentication):
        """It authenticates again at once."""

        def again_after_ms(self, chance: float) -> int:
            return 1

    async def begin() -> ClientAuthentication:
        if len(begun) in (1, 2):
            begun.append(None)
            raise LookupError("who gives tokens out is away")
        machine = ScramClient(SHA_256, "user", "pencil", bytes(range(24)), KEPT)
        begun.append(Often([machine], encrypted=False))
        return Often([machine], encrypted=False)

    async with serving(reauth_ms_max=600_000) as (server, _):
        dialer = AuthenticatingDialer(PLAIN, begin, lambda: 0.5, again_s=0.01)
        channel = await dialer.open(*server.address, ClientConnection("test"), connect_timeout_s=5)
        await eventually(lambda: len(begun) > 4)
        await channel.call(MetadataRequest(None), timeout_s=5)
        assert begun[1:3] == [None, None]
        channel.close()


@pytest.mark.parametrize("left", [None, "anew"])
async def test_a_user_who_changes_during_the_exchange_fails_it(left: str | None) -> None:
    users = one_user()
    async with serving(users=users) as (server, _):
        channel, begun = await server.channel(), exchange()
        answer = (await channel.call(begun.start(), timeout_s=5)).message
        changed = None if left is None else replace(users_of(users), generation=2)
        users.change(1, 2, {"user": changed})
        answer = (await channel.call(begun.next(answer), timeout_s=5)).message
        assert answer.error_code == SaslAuthenticationFailedError.code
        await eventually(lambda: channel.closed)


def users_of(users: Users) -> ScramUser:
    """Return the only user, with the same password."""
    found = tuple(users.look_up(each, "user") for each in (SHA_256, SHA_512))
    return ScramUser("user", 1, tuple(each for each in found if each is not None))


@pytest.mark.hostile(16)
async def test_a_message_out_of_turn_ends_the_connection() -> None:
    async with serving() as (server, _):
        channel = await server.channel()
        for _ in range(2):
            request = AuthenticateRequest("SCRAM-SHA-256", exchange().start().data)
            reply = await channel.call(request, timeout_s=5)
        assert reply.message.error_code != 0
        await eventually(lambda: channel.closed)


# ---- guesses


GUESSES = 10_000
AT_A_TIME = 32
"""One address may have so many connections whose peers are not known."""


@pytest.mark.slow
@pytest.mark.hostile(28)
def test_ten_thousand_guesses_wait_and_nobody_else() -> None:
    """It is played on virtual time: in real time it takes half an hour."""

    async def main(loop: SimLoop) -> None:
        handler = handler_of(one_user(), (SHA_256,))

        async def tried(host: str, name: str, password: str) -> tuple[bool, float]:
            """Return whether it was let in, and after how many seconds it knew."""
            context = make_context(internal=False)
            context.peer = f"{host}:40000"
            begun, begin = loop.time(), exchange(name, password)
            answer = await handler.handle_async(context, begin.start())
            following = begin.next(answer)
            assert following is not None
            answer = await handler.handle_async(context, following)
            assert context.connection.ends == bool(answer.error_code)
            return answer.error_code == 0, loop.time() - begun

        async def guesses(count: int) -> list[tuple[bool, float]]:
            return [await tried("192.0.2.1", "user", "pen") for _ in range(count)]

        begun = loop.time()
        first = await guesses(9)
        assert all(not known and 0.1 <= waited <= 0.26 for known, waited in first)
        under_way = asyncio.gather(*(guesses(GUESSES // AT_A_TIME) for _ in range(AT_A_TIME)))
        others = []
        while not under_way.done():
            # A proxy may be the address of many.
            others += [await tried(host, "user", "pencil") for host in ("192.0.2.1", "192.0.2.2")]
            await asyncio.sleep(10.0)
        assert all(known and waited < 0.01 for known, waited in others)
        late = [each for some in await under_way for each in some]
        assert all(not known and 5.0 <= waited < 5.1 for known, waited in late)
        assert loop.time() - begun > 5 * GUESSES / AT_A_TIME - 60
        await asyncio.sleep(60)
        assert (await tried("192.0.2.1", "user", "pen"))[1] < 0.3, "a minute later all is forgiven"

    play(main)


@pytest.mark.hostile(28)
async def test_who_waits_to_be_told_of_a_failure_is_not_late_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An answer that comes after the deadline of a handshake comes all the same."""
    monkeypatch.setattr(authenticate, "FAILURE_S_MIN", 0.3)
    monkeypatch.setattr(authenticate, "FAILURE_S_MAX", 0.3)
    limits = connection_settings(handshake_s=0.05, sweep_s=0.02)
    async with serving(limits=limits) as (server, _):
        with pytest.raises(SaslAuthenticationFailedError):
            await dialled(server, lambda: exchange("user", "pen"))
        assert server.listener.counters.broken == 0

"""Authentication and the sessions of users are attacked: rows 15 to 28, and 33 to 36."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import struct
from collections.abc import Sequence

from integration.hostile.attack import Attack
from integration.hostile.bystander import USER as CANARY
from integration.hostile.target import PASSWORD, USER, Target, end_of
from oncelog.admin.users import UserAlteration
from oncelog_protocol.acls import AclBindingFilter
from oncelog_protocol.errors import (
    IllegalSaslStateError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
    UnsupportedSaslMechanismError,
)
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.metadata import MetadataRequest
from oncelog_runtime.channel import ChannelClosedError, RequestChannel
from support.hand_records import fetch_values
from support.sasl import final_by_hand
from support.server import HELLO, frame, request_head
from support.waiting import eventually

REFUSED = SaslAuthenticationFailedError.code
NONCE = base64.b64encode(bytes(24))
FIRST = b"n,,n=app,r=" + NONCE
GUESSES = 32
SESSION_MS = 2000


async def request_before_authentication(target: Target) -> None:
    """Ask for something before saying who asks."""
    for listener in ("external", "plain"):
        channel = await target.channel(listener)
        answer = await target.ask(channel, MetadataRequest(None))
        assert answer.error_code == IllegalSaslStateError.code
        await target.is_closed(channel)


async def twice_at_once(target: Target) -> None:
    """Begin two exchanges on one connection, in one write, and go on with another mechanism."""
    first = request_head(ApiKey.AUTHENTICATE, ["SCRAM-SHA-256", FIRST])
    for second in (first, request_head(ApiKey.AUTHENTICATE, ["PLAIN", b"\0app\0pencil"])):
        peer = await target.raw("external", target.context())
        peer.send(HELLO + frame(first) + frame(second))
        await end_of(peer)


async def mechanisms_that_are_not_taken(target: Target) -> None:
    """Name a mechanism that nobody knows, and show a password where nothing is encrypted."""
    for listener, mechanism in (("external", "GSSAPI"), ("plain", "PLAIN"), ("external", "")):
        channel = await target.channel(listener)
        answer = await target.sasl(channel, b"\0app\0pencil", mechanism)
        assert answer.error_code == UnsupportedSaslMechanismError.code, mechanism
        await target.is_closed(channel)


async def data_that_is_no_exchange(target: Target) -> None:
    """Send more data than an exchange may have, and data that is not text."""
    large = frame(request_head(ApiKey.AUTHENTICATE, ["SCRAM-SHA-256", bytes((1 << 14) + 1)]))
    peer = await target.raw("external", target.context())
    peer.send(HELLO + large)
    await end_of(peer)
    await _all_fail(target, [b"n,,n=a\xc3\x28pp,r=x", b"n,,n=ap\0p,r=x"])


async def messages_that_are_not_right(target: Target) -> None:
    """Send first messages of SCRAM with attributes of other users, twice, and out of order."""
    await _all_fail(target, [b"p=tls-unique,," + FIRST[3:], b"n,a=admin," + FIRST[3:]])
    await _all_fail(target, [b"n,,m=x," + FIRST[3:], b"n,,r=x,n=app", b"n,,n=app,n=admin,r=x"])
    await _all_fail(target, [b"n,,n=a=pp,r=x"])


async def _all_fail(target: Target, firsts: Sequence[bytes]) -> None:
    for first in firsts:
        channel = await target.channel("external")
        assert (await target.sasl(channel, first)).error_code == REFUSED, first
        await target.is_closed(channel)


async def half_a_nonce(target: Target) -> None:
    """End an exchange with a nonce that only begins, or ends, with that of the broker."""
    for cut in (slice(1, None), slice(None, -1)):
        channel = await target.channel("external")
        answer = await target.sasl(channel, FIRST)
        nonce = answer.data.decode().partition(",")[0].removeprefix("r=")
        last = final_by_hand(FIRST, answer.data, nonce=nonce[cut])
        assert (await target.sasl(channel, last)).error_code == REFUSED
        await target.is_closed(channel)


async def replayed_exchange(target: Target) -> None:
    """Send on one connection what has let somebody in on another."""
    one, other = await target.channel("external"), await target.channel("external")
    last = final_by_hand(FIRST, (await target.sasl(one, FIRST)).data)
    await target.sasl(other, FIRST)
    assert (await target.sasl(one, last)).error_code == 0
    assert (await target.sasl(other, last)).error_code == REFUSED
    await target.is_closed(other)


async def header_of_another_message(target: Target) -> None:
    """End an exchange with another header than the one that it began with."""
    channel = await target.channel("external")
    last = final_by_hand(FIRST, (await target.sasl(channel, FIRST)).data, binding="eSws")
    assert (await target.sasl(channel, last)).error_code == REFUSED
    await target.is_closed(channel)


async def another_authzid(target: Target) -> None:
    """Know one's own password, and want to be somebody else."""
    for data in (b"admin\0app\0pencil", b"canary\0app\0pencil", b"\0admin\0pencil"):
        channel = await target.channel("external")
        assert (await target.sasl(channel, data, "PLAIN")).error_code == REFUSED
        await target.is_closed(channel)


async def escaped_names(target: Target) -> None:
    """Write a name with escapes, right ones and wrong ones; nobody has such a name."""
    firsts = [b"n,,n=%s,r=%s" % (name, NONCE) for name in (b"a=2Cp", b"a=3Dp", b"a=2cp", b"a=")]
    await _all_fail(target, firsts)


async def names_of_users(target: Target) -> None:
    """Look for users: the answer to a name that nobody has is of the form of the others."""
    forms = set()
    for name in (USER, "nobody"):
        first = b"n,,n=%s,r=%s" % (name.encode(), NONCE)
        channel = await target.channel("external")
        answer = await target.sasl(channel, first)
        last = final_by_hand(first, answer.data).replace(b",p=", b",p=AAAA")
        failed = await target.sasl(channel, last)
        assert failed.error_code == REFUSED
        fields = answer.data.decode().split(",")
        forms.add((*(f"{each[:2]}{len(each)}" for each in fields[:2]), failed.error_message))
    assert len(forms) == 1


async def guesses(target: Target) -> None:
    """Guess a password, many times at once; whoever knows one is let in all the while."""
    await asyncio.gather(*(_guess(target) for _ in range(GUESSES)), _known(target))


async def _guess(target: Target) -> None:
    """A password that waits too long to be checked ends the connection without an answer."""
    channel = await target.channel("external")
    with contextlib.suppress(ChannelClosedError):
        assert (await target.sasl(channel, b"\0app\0pen", "PLAIN")).error_code == REFUSED
    await target.is_closed(channel)


async def _known(target: Target) -> None:
    for _ in range(5):
        channel = await target.user()
        channel.close()
        await channel.wait_closed()


async def another_user(target: Target) -> None:
    """Authenticate again, as somebody else."""
    channel = await target.user()
    answer = await target.sasl(channel, f"\0{CANARY}\0{CANARY}".encode(), "PLAIN")
    assert answer.error_code == REFUSED
    await target.is_closed(channel)


async def ended_session(target: Target) -> None:
    """Go on when the session is over. The bystander authenticates again in time."""
    channel = await target.channel("external")
    last = final_by_hand(FIRST, (await target.sasl(channel, FIRST)).data)
    assert (await target.sasl(channel, last)).session_ms == SESSION_MS
    with contextlib.suppress(ChannelClosedError):
        while True:
            await target.ask(channel, MetadataRequest([]))
            await asyncio.sleep(0.01)
    await target.is_closed(channel)


async def users_who_are_gone(target: Target) -> None:
    """Wait for records as a user who is disabled, gets another password, and is deleted."""
    async with target.admin() as admin:
        for gone in (
            UserAlteration.disable(USER),
            UserAlteration.set_password(USER, PASSWORD, iterations=4096),
            UserAlteration.delete(USER),
        ):
            channel = await target.user()
            waiting = await _fetching(target, channel)
            (await admin.alter_users([gone])).raise_for_errors()
            # The change is acknowledged: what it takes away is gone, and not in a second.
            await eventually(waiting.done, what="the fetch has ended", timeout_s=5)
            assert isinstance(waiting.exception(), ChannelClosedError), gone
            if gone.action == "DISABLE":
                (await admin.alter_users([UserAlteration.enable(USER)])).raise_for_errors()


async def rights_that_are_gone(target: Target) -> None:
    """Wait for records that one may not read any more."""
    channel = await target.user()
    waiting = await _fetching(target, channel)
    async with target.admin() as admin:
        assert await admin.delete_acls([AclBindingFilter(principal=f"User:{USER}")])
    await eventually(waiting.done, what="the fetch has ended", timeout_s=5)
    assert isinstance(waiting.exception(), TopicAuthorizationFailedError)


async def _fetching(target: Target, channel: RequestChannel) -> asyncio.Task[list[bytes | None]]:
    """Return a fetch that waits at the broker for records that nobody writes."""
    waiting = asyncio.create_task(fetch_values(channel, "t", 0, wait_ms=60_000))
    # Until somebody else has authenticated, in many round trips, the broker has it.
    await target.user(CANARY, CANARY)
    assert not waiting.done()
    return waiting


async def frames_before_authentication(target: Target) -> None:
    """Claim a frame that is larger than whoever is not known may send."""
    peer = await target.raw("external", target.context())
    peer.send(HELLO)
    await peer.response()
    peer.send(struct.pack(">II", 1 << 17, 8))
    assert await end_of(peer) == b""


ATTACKS = (
    Attack(15, request_before_authentication),
    Attack(15, frames_before_authentication),
    Attack(16, twice_at_once),
    Attack(17, mechanisms_that_are_not_taken),
    Attack(18, data_that_is_no_exchange),
    Attack(19, half_a_nonce),
    Attack(20, replayed_exchange),
    Attack(21, header_of_another_message),
    Attack(22, another_authzid),
    Attack(23, messages_that_are_not_right),
    Attack(24, escaped_names),
    Attack(25, names_of_users),
    Attack(28, guesses),
    Attack(33, another_user),
    Attack(34, ended_session, {"connections_max_reauth_ms": SESSION_MS}),
    Attack(35, users_who_are_gone),
    Attack(36, rights_that_are_gone),
)

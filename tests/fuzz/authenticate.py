"""Frames of AUTHENTICATE with bytes changed reach a broker's end of a connection, in one process.

    python -m fuzz.authenticate --frames 10000000 --jobs 2

From ``tests/``, or by ``make fuzz-authenticate``; it ends with one JSON line. Each exchange begins
as that of a client who knows the password, or has a token. A *stranger* is let in if it gets as far
as a client with bytes that no such client sends. What else may come of a frame: it is refused, or
the connection ends as broken. Anything else is a fault, and is told with the exchange's number,
which draws the same bytes again.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import random
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any

from oncelog_protocol.connection import ServerConnection
from oncelog_protocol.errors import RemoteProtocolError, UnacceptableCredentialError
from oncelog_protocol.limits import FRAME_BYTES_MAX_UNAUTHENTICATED
from oncelog_protocol.messages.authentication import AuthenticateRequest
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.sasl.credential import Mechanism
from oncelog_protocol.sasl.oauth_bearer import TokenCheck, TokenHolder
from oncelog_protocol.sasl.outcomes import Continue, Done, Failed
from oncelog_protocol.sasl.plain import PasswordCheck
from oncelog_protocol.sasl.saslprep import prepared_password
from oncelog_protocol.sasl.server_authentication import SaslPorts, ServerAuthentication
from support.messages import feed
from support.sasl import CLIENT_NONCE, SECRET, SERVER_NONCE, final_by_hand, look_up
from support.server import HELLO, frame, request_head

__all__ = ["Tally", "fuzz", "mutated"]

USER, TOKEN = "user", "a.good.token"
FIRST = b"n,,n=user,r=" + base64.b64encode(CLIENT_NONCE)
PLAIN = b"\0user\0pencil"
BEARER = f"n,,\x01auth=Bearer {TOKEN}\x01\x01".encode()
INTERESTING = (b",", b"=", b"\0", b"n=admin", b"a=admin", b"m=x", b"p=", b"r=", b"\xff", b"\x01")
LARGE_BYTES = 1000
"""It bounds what is doubled a hundred times."""
EXCHANGES_OF_A_JOB = 25_000
BUFFER_BYTES_MAX = 2 * FRAME_BYTES_MAX_UNAUTHENTICATED


def verdict(token: str) -> TokenHolder | Exception:
    """Return whom a token names: there is one that is good."""
    return TokenHolder(USER, 1) if token == TOKEN else LookupError("it is not the good one")


PORTS = SaslPorts(tuple(Mechanism), look_up, SECRET)


def _exchange(mechanism: Mechanism) -> list[bytes]:
    """Return what a client that may come in sends by a mechanism."""
    if mechanism is Mechanism.PLAIN:
        return [PLAIN]
    if mechanism is Mechanism.OAUTHBEARER:
        return [BEARER]
    answer = _server().step(str(mechanism), FIRST)
    assert isinstance(answer, Continue)
    return [FIRST, final_by_hand(FIRST, answer.data, mechanism=mechanism)]


def _server() -> ServerAuthentication:
    return ServerAuthentication(PORTS, nonce=SERVER_NONCE, encrypted=True)


RIGHT = {mechanism: _exchange(mechanism) for mechanism in Mechanism}


@dataclass
class Tally:
    """It counts what came of frames."""

    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    @property
    def frames(self) -> int:
        return self.outcomes.total()

    def add(self, other: Tally) -> None:
        self.outcomes += other.outcomes
        self.faults += other.faults


def mutated(chance: random.Random, original: bytes) -> bytes:
    """Return bytes with a few set, cut out, doubled or put in, or their end cut off."""
    data = bytearray(original)
    for _ in range(chance.randint(1, 3)):
        at = chance.randint(0, max(len(data) - 1, 0))
        kind = chance.randrange(7)
        if kind <= 1 and data:
            data[at] = chance.randrange(256)
        elif kind == 2:
            del data[at : at + chance.randint(1, 8)]
        elif kind == 3:
            data[at:at] = data[at : at + chance.randint(1, 16)]
        elif kind == 4:
            data[at:at] = chance.choice(INTERESTING)
        elif kind == 5:
            del data[at:]
        else:
            data += data[:LARGE_BYTES] * chance.choice((1, 1, 1, 100))
    return bytes(data)


def fuzz(first: int, count: int) -> Tally:
    """Play so many exchanges, from number ``first`` on, and count."""
    tally = Tally()
    for number in range(first, first + count):
        try:
            _play(random.Random(number), tally)
        except Exception as error:
            tally.faults.append(f"exchange {number}: {type(error).__name__}: {error}"[:300])
    return tally


def _play(chance: random.Random, tally: Tally) -> None:
    """Play one exchange: most have one message changed, some the frame around it, some nothing."""
    mechanism = chance.choice(list(Mechanism))
    messages = list(RIGHT[mechanism])
    changed = chance.randrange(len(messages))
    level = chance.choice(("data", "data", "data", "frame", "frame", "name", "nothing"))
    if level == "data":
        messages[changed] = mutated(chance, messages[changed])
    connection, server = ServerConnection(authenticates=True), _server()
    feed(connection, HELLO)
    for index, data in enumerate(messages):
        named: Any = str(mechanism)
        if level == "name" and index == changed:
            named = chance.choice((*map(str, Mechanism), "", "GSSAPI", None, 7, "x" * 300))
        sent = frame(request_head(ApiKey.AUTHENTICATE, [named, data], correlation_id=index))
        if level == "frame" and index == changed:
            sent = mutated(chance, sent)
        if not _taken(connection, server, sent, tally):
            return


def _taken(
    connection: ServerConnection, server: ServerAuthentication, sent: bytes, tally: Tally
) -> bool:
    """Give a frame to a connection; return whether the exchange goes on."""
    try:
        arrived = feed(connection, sent)
    except RemoteProtocolError:
        tally.outcomes["broken"] += 1
        return False
    assert connection.buffer_bytes <= BUFFER_BYTES_MAX, "memory for a stranger"
    if not arrived:
        tally.outcomes["waits for more"] += 1
        return False
    goes_on = False
    for each in arrived:
        request = each.message
        if not isinstance(request, AuthenticateRequest):
            tally.outcomes["another request"] += 1  # it is refused before anybody looks at it
            return False
        goes_on = _judged(server, request, tally)
    connection.release()
    return goes_on


def _judged(server: ServerAuthentication, request: AuthenticateRequest, tally: Tally) -> bool:
    outcome = server.step(request.mechanism, bytes(request.data))
    if isinstance(outcome, PasswordCheck):
        # Checking it takes milliseconds, and a test of its own.
        right = outcome.is_user and outcome.name == USER and _is_password(outcome.password)
        outcome = server.checked(right)
    elif isinstance(outcome, TokenCheck):
        outcome = server.judged(verdict(outcome.token))
    told = server.answer(outcome)
    if isinstance(outcome, Continue):
        assert server.mechanism.startswith("SCRAM")
        tally.outcomes["goes on"] += 1
        return True
    if isinstance(outcome, Failed):
        assert told.error_code
        assert not told.data
        tally.outcomes["failed"] += 1
        return not outcome.is_last
    assert isinstance(outcome, Done)
    if not _is_right(request):
        raise AssertionError(f"a stranger is let in by {bytes(request.data)!r}")
    tally.outcomes["let in"] += 1
    return False


def _is_password(text: str) -> bool:
    try:
        return prepared_password(text) == prepared_password("pencil")
    except UnacceptableCredentialError:
        return False


def _is_right(request: AuthenticateRequest) -> bool:
    """Return whether only somebody who knows the password, or has the token, sends this last."""
    data = bytes(request.data)
    if request.mechanism.startswith("SCRAM"):
        return data == RIGHT[Mechanism(request.mechanism)][-1]
    return (b"pencil" if request.mechanism == Mechanism.PLAIN else TOKEN.encode()) in data


# ---- from a shell


def main(arguments: Sequence[str] | None = None) -> int:
    """Play until so many frames were sent; return 0 if there was no fault."""
    parser = argparse.ArgumentParser(prog="fuzz-authenticate", description=__doc__)
    parser.add_argument("--frames", type=int, default=1_000_000, help="at least so many")
    parser.add_argument("--from", type=int, default=1, dest="first", help="the first exchange")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no longer than this")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args(arguments)
    whole, first, begun = Tally(), given.first, time.monotonic()
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        while whole.frames < given.frames and not whole.faults:
            if time.monotonic() - begun > given.seconds:
                break
            left = 1 + (given.frames - whole.frames) // EXCHANGES_OF_A_JOB
            jobs = min(given.jobs * 4, left)
            firsts = [first + number * EXCHANGES_OF_A_JOB for number in range(jobs)]
            for tally in pool.map(fuzz, firsts, [EXCHANGES_OF_A_JOB] * jobs):
                whole.add(tally)
            first += jobs * EXCHANGES_OF_A_JOB
    for fault in whole.faults[:20]:
        print(fault)
    seconds = round(time.monotonic() - begun, 1)
    summary = {
        "frames": whole.frames,
        "exchanges": first - given.first,
        **{name.replace(" ", "_"): count for name, count in sorted(whole.outcomes.items())},
        "faults": len(whole.faults),
        "seconds": seconds,
        "ok": not whole.faults,
    }
    print(json.dumps(summary))
    return 1 if whole.faults else 0


if __name__ == "__main__":
    raise SystemExit(main())

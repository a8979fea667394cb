"""Tests of SASL share a user ``user`` with the password ``pencil``, and what goes with it."""

from __future__ import annotations

import base64
from typing import Any

from oncelog_protocol.sasl.credential import (
    SCRAM_HASHES,
    Mechanism,
    ScramCredential,
    ScramKeys,
    derived_keys,
    proof_of,
)
from oncelog_protocol.sasl.outcomes import Continue, Failed
from oncelog_protocol.sasl.scram_messages import read_server_first, signed

SHA_256, SHA_512 = Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_NONCE = base64.b64decode("rOprNGfwEbeRWgbNEkqO")
SERVER_NONCE = bytes(range(24))
SECRET = b"the cluster's secret of 32 bytes"
CREDENTIALS = {each: ScramCredential.make(each, "pencil", SALT, 4096) for each in SCRAM_HASHES}


def look_up(mechanism: Mechanism, name: str) -> ScramCredential | None:
    """Return the credential of the only user."""
    return CREDENTIALS.get(mechanism) if name == "user" else None


def final_by_hand(
    first: bytes,
    answer: bytes,
    header: bytes = b"n,,",
    mechanism: Mechanism = SHA_256,
    **change: str,
) -> bytes:
    """Return the last message of a client that knows the password, and may say something else."""
    challenge = read_server_first(answer.decode())
    hash_name = SCRAM_HASHES[mechanism]
    keys = derived_keys(hash_name, b"pencil", challenge.salt, challenge.iterations)
    nonce = change.get("nonce", challenge.nonce)
    binding = change.get("binding", base64.b64encode(header).decode())
    unproved = f"c={binding},r={nonce}"
    bare = first.decode().removeprefix(header.decode())
    proof = proof_of(keys, signed(bare, answer.decode(), unproved), hash_name)
    return f"{unproved},p={base64.b64encode(proof).decode()}".encode()


def sent(outcome: object) -> bytes:
    """Return what goes to the peer."""
    assert isinstance(outcome, Continue), outcome
    return outcome.data


def cause(outcome: object) -> str:
    """Return why an exchange has failed."""
    assert isinstance(outcome, Failed), outcome
    return outcome.cause


class Derivations(list[tuple[Any, ...]]):
    """It derives keys, remembers them, and lists what each was made of."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[tuple[Any, ...], ScramKeys] = {}

    def derive(self, *origin: Any) -> ScramKeys:
        """Return the keys of an origin."""
        self.append(origin)
        if origin not in self._known:
            self._known[origin] = derived_keys(*origin)
        return self._known[origin]

"""Nobody gets in by a message of SCRAM that is not right, and no rogue server gets anything."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol.errors import LocalProtocolError, UnacceptableCredentialError
from oncelog_protocol.sasl import credential as credentials
from oncelog_protocol.sasl.credential import (
    KeptKeys,
    Mechanism,
    ScramCredential,
)
from oncelog_protocol.sasl.gs2 import SaslSyntaxError
from oncelog_protocol.sasl.outcomes import Done, Failed
from oncelog_protocol.sasl.scram_client import ScramClient
from oncelog_protocol.sasl.scram_messages import decoded
from oncelog_protocol.sasl.scram_server import ScramServer
from support.sasl import (
    CLIENT_NONCE,
    SALT,
    SECRET,
    SERVER_NONCE,
    SHA_256,
    SHA_512,
    Derivations,
    cause,
    final_by_hand,
    look_up,
    sent,
)
from unsafe.scram import AnyServer, PartOfNonce

BOTH = pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])


@pytest.fixture
def derivations(monkeypatch: pytest.MonkeyPatch) -> Derivations:
    """Return the list in which each derivation of keys leaves its origin."""
    made = Derivations()
    monkeypatch.setattr(credentials, "derived_keys", made.derive)
    return made


def new_server(mechanism: Mechanism = SHA_256, nonce: bytes = SERVER_NONCE) -> ScramServer:
    return ScramServer(mechanism, look_up, SECRET, nonce)


def new_client(
    mechanism: Mechanism = SHA_256, name: str = "user", password: str = "pencil"
) -> ScramClient:
    return ScramClient(mechanism, name, password, CLIENT_NONCE, KeptKeys())


# ---- scram_server.py: what a server believes


@BOTH
@pytest.mark.parametrize("header", [b"n,,", b"y,,", b"n,a=user,", b"y,a=user,"])
def test_a_story(mechanism: Mechanism, header: bytes) -> None:
    server, client = new_server(mechanism), new_client(mechanism)
    if header == b"n,,":
        final = client.step(sent(server.step(client.start())))
        done = server.step(sent(final))
        assert isinstance(done, Done)
        assert done.name == "user"
        assert client.step(done.data) == Done("user")
    else:
        first = header + client.start().removeprefix(b"n,,")
        done = server.step(final_by_hand(first, sent(server.step(first)), header, mechanism))
        assert isinstance(done, Done)
        assert done.name == "user"


FIRST = b"n,,n=user,r=" + base64.b64encode(CLIENT_NONCE)


@pytest.mark.hostile(19)
@pytest.mark.cve("2024-56128")
def test_the_nonce_must_be_the_whole_one() -> None:
    """It is row 19 (CVE-2024-56128): the proof is right, the nonce begins or ends with ours."""
    own = base64.b64encode(SERVER_NONCE).decode()
    whole = base64.b64encode(CLIENT_NONCE).decode() + own
    for nonce in (own, whole + "x", "x" + whole, whole[:-1], whole[1:], own + whole, whole.upper()):
        server = new_server()
        answer = sent(server.step(FIRST))
        assert "nonce" in cause(server.step(final_by_hand(FIRST, answer, b"n,,", nonce=nonce)))


@pytest.mark.ablation("whole_nonce")
def test_the_nonce_is_caught_when_a_part_of_it_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ScramServer", PartOfNonce)
    with pytest.raises(AssertionError):
        test_the_nonce_must_be_the_whole_one()


@pytest.mark.hostile(20)
def test_a_message_of_another_connection_proves_nothing() -> None:
    """It is row 20 of the hostile inputs."""
    one, other = new_server(), new_server(nonce=bytes(24))
    final = final_by_hand(FIRST, sent(one.step(FIRST)), b"n,,")
    sent(other.step(FIRST))
    assert isinstance(one.step(final), Done)
    assert "nonce" in cause(other.step(final))


@pytest.mark.parametrize("binding", ["eSws", "biwsYT11c2Vy", "biw=", "", "biwt", "bjws"])
@pytest.mark.hostile(21)
def test_the_header_must_be_that_of_the_first_message(binding: str) -> None:
    """It is row 21 of the hostile inputs."""
    server = new_server()
    final = final_by_hand(FIRST, sent(server.step(FIRST)), b"n,,", binding=binding)
    assert isinstance(server.step(final), Failed)


BAD_FIRSTS = {
    "channel binding": b"p=tls-unique,,n=user,r=fyko+d2lbbFgONRv",
    "channel binding without a name": b"p=,,n=user,r=fyko+d2lbbFgONRv",
    "authzid of another user": b"n,a=admin,n=user,r=fyko+d2lbbFgONRv",
    "authzid of another user, escaped": b"n,a=user=2C,n=user,r=fyko+d2lbbFgONRv",
    "empty authzid": b"n,a=,n=user,r=fyko+d2lbbFgONRv",
    "no authzid where one belongs": b"n,user,n=user,r=fyko+d2lbbFgONRv",
    "no header": b"n=user,r=fyko+d2lbbFgONRv",
    "another flag": b"x,,n=user,r=fyko+d2lbbFgONRv",
    "no name": b"n,,r=fyko+d2lbbFgONRv",
    "empty name": b"n,,n=,r=fyko+d2lbbFgONRv",
    "no nonce": b"n,,n=user",
    "empty nonce": b"n,,n=user,r=",
    "nonce that is not printable": b"n,,n=user,r=fyko+d2lbb\x7fgONRv",
    "nonce with a blank": b"n,,n=user,r=fyko+d2l bFgONRv",
    "nonce without an end": b"n,,n=user,r=" + b"x" * 2000,
    "name twice": b"n,,n=user,n=user,r=fyko+d2lbbFgONRv",
    "nonce twice": b"n,,n=user,r=fyko+d2lbbFgONRv,r=fyko+d2lbbFgONRv",
    "out of order": b"n,,r=fyko+d2lbbFgONRv,n=user",
    "m=": b"n,,m=x,n=user,r=fyko+d2lbbFgONRv",
    "an extension": b"n,,n=user,r=fyko+d2lbbFgONRv,x=y",
    "a comma too many": b"n,,n=user,r=fyko+d2lbbFgONRv,",
    "bad escape": b"n,,n=us=er,r=fyko+d2lbbFgONRv",
    "small escape": b"n,,n=us=2cer,r=fyko+d2lbbFgONRv",
    "a name that nobody has": b"n,,n=us=2Cer,r=fyko+d2lbbFgONRv",
    "NUL": b"n,,n=us\0er,r=fyko+d2lbbFgONRv",
    "not UTF-8": b"n,,n=us\xc3\x28er,r=fyko+d2lbbFgONRv",
    "nothing": b"",
    "16 KiB of commas": b"," * 2**14,
    "16 KiB of names": b"n,," + b"n=a," * 2**12,
}


@pytest.mark.parametrize("data", BAD_FIRSTS.values(), ids=BAD_FIRSTS)
@pytest.mark.hostile(18, 21, 22, 23, 24)
@pytest.mark.cve("2017-12610")
def test_a_first_message_that_is_not_right(data: bytes) -> None:
    """These are rows 18, 21, 22, 23 and 24; nothing can be said after one of them."""
    server = new_server()
    assert cause(server.step(data))
    assert isinstance(server.step(FIRST), Failed)


BAD_FINALS: dict[str, Callable[[bytes], bytes]] = {
    "no c=": lambda final: final.partition(b",")[2],
    "no proof": lambda final: final.rpartition(b",")[0],
    "empty proof": lambda final: final.rpartition(b",p=")[0] + b",p=",
    "proof twice": lambda final: final + b"," + final.rpartition(b",")[2],
    "out of order": lambda final: b",".join(sorted(final.split(b","), reverse=True)),
    "m=": lambda final: b"m=x," + final,
    "an extension": lambda final: final.replace(b",p=", b",x=y,p="),
    "short proof": lambda final: final.rpartition(b",p=")[0] + b",p=AAAA",
    "proof of zeros": lambda final: final.rpartition(b",p=")[0] + b",p=" + b"A" * 43 + b"=",
    "NUL": lambda final: final + b"\0",
    "not UTF-8": lambda final: final + b"\xff",
    "a line end": lambda final: final + b"\n",
    "nothing": lambda _: b"",
}


@pytest.mark.parametrize("spoilt", BAD_FINALS.values(), ids=BAD_FINALS)
@pytest.mark.hostile(23)
def test_a_last_message_that_is_not_right(spoilt: Callable[[bytes], bytes]) -> None:
    """It is row 23; the right message comes too late after it."""
    server = new_server()
    final = final_by_hand(FIRST, sent(server.step(FIRST)), b"n,,")
    assert isinstance(server.step(spoilt(final)), Failed)
    assert isinstance(server.step(final), Failed)


@BOTH
@pytest.mark.hostile(25)
def test_nobody_gets_in_by_a_wrong_password_or_as_nobody(mechanism: Mechanism) -> None:
    """It is row 25: what the client sees of both is of one form."""
    for name, password in (("user", "pen"), ("nobody", "pencil")):
        server, client = new_server(mechanism), new_client(mechanism, name, password)
        first = sent(server.step(client.start()))
        assert first.startswith(b"r=" + base64.b64encode(CLIENT_NONCE + SERVER_NONCE) + b",s=")
        failed = server.step(sent(client.step(first)))
        assert cause(failed).startswith("wrong password" if name == "user" else "no such user")


@pytest.mark.hostile(25)
def test_a_user_and_nobody_take_as_many_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is row 25 of the hostile inputs."""
    counts = []
    real = hmac.digest
    calls: list[str] = []

    def counted(key: bytes, message: bytes, digest: str) -> bytes:
        calls.append(digest)
        return real(key, message, digest)

    monkeypatch.setattr(hmac, "digest", counted)
    for name in ("user", "nobody"):
        server, client = new_server(), new_client(name=name, password="wrong")
        final = sent(client.step(sent(server.step(client.start()))))
        after_first = len(calls)
        server.step(final)
        counts.append((after_first, len(calls) - after_first))
        calls.clear()
    assert counts[0] == counts[1]


def test_nobodys_credential_lets_nobody_in() -> None:
    """Even whoever has the cluster's secret is not a user by it."""
    nobody = ScramCredential.make(SHA_256, "pencil", SALT, 4096)
    server = ScramServer(SHA_256, lambda *_: None, SECRET, SERVER_NONCE)
    answer = sent(server.step(FIRST))
    assert nobody.salt not in answer
    assert isinstance(server.step(final_by_hand(FIRST, answer, b"n,,")), Failed)


def test_a_nonce_that_may_come_again_is_refused() -> None:
    with pytest.raises(LocalProtocolError):
        new_server(nonce=bytes(11))
    with pytest.raises(LocalProtocolError):
        ScramClient(SHA_256, "user", "pencil", b"", KeptKeys())


# ---- scram_client.py: what a client believes


@pytest.mark.parametrize(
    ("name", "password"), [("", "pencil"), ("a,b", "pencil"), ("user", ""), ("user", "x" * 1025)]
)
def test_what_no_user_has(name: str, password: str) -> None:
    with pytest.raises(UnacceptableCredentialError):
        new_client(name=name, password=password)


def test_the_example_of_rfc_7677_at_the_client() -> None:
    client = new_client()
    assert client.start() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    final = client.step(f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode())
    proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert sent(final) == f"c=biws,r={nonce},p={proof}".encode()
    assert client.step(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") == Done("user")


NONCES = base64.b64encode(CLIENT_NONCE) + b"xyz"

ROGUES = {
    "1 iteration": b"r=" + NONCES + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1",
    "4,095 iterations": b"r=" + NONCES + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4095",
    "10^9 iterations": b"r=" + NONCES + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1000000000",
    "10^4000 iterations": b"r=" + NONCES + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1" + b"0" * 4000,
    "iterations with a sign": b"r=" + NONCES + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=+4096",
    "iterations in another script": b"r=" + NONCES + ",s=W22ZaJ0=,i=\u0664\u0669\u0666".encode(),
    "no salt": b"r=" + NONCES + b",s=,i=4096",
    "a long salt": b"r=" + NONCES + b",s=" + b"AAAA" * 100 + b",i=4096",
    "a salt that is not base64": b"r=" + NONCES + b",s=W22ZaJ0SNY7soEsUEjb6gQ,i=4096",
    "only our nonce": b"r=" + NONCES[:-3] + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
    "another nonce": b"r=x" + NONCES + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
    "m=": b"m=x,r=" + NONCES + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
    "an extension": b"r=" + NONCES + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,x=y",
    "out of order": b"s=W22ZaJ0SNY7soEsUEjb6gQ==,r=" + NONCES + b",i=4096",
    "the end at once": b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    "an error": b"e=other-error",
    "nothing": b"",
}


@pytest.mark.parametrize("data", ROGUES.values(), ids=ROGUES)
@pytest.mark.hostile(27)
def test_a_rogue_server_gets_nothing(data: bytes, derivations: Derivations) -> None:
    """It is row 27; nothing is computed for it either."""
    client = new_client()
    assert "cannot be trusted" in cause(client.step(data))
    assert derivations == []


@pytest.mark.parametrize("data", [b"", b"v=", b"v=AAAA", b"v=" + b"A" * 43 + b"=", b"e=no", b"v"])
@pytest.mark.hostile(27)
def test_a_server_without_the_credential_is_not_believed(data: bytes) -> None:
    """It is row 27 of the hostile inputs."""
    client = new_client()
    client.step(b"r=" + NONCES + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    assert isinstance(client.step(data), Failed)
    assert isinstance(client.step(data), Failed)


@pytest.mark.ablation("verify_server")
def test_a_rogue_server_is_caught_when_its_signature_is_not_verified(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(globals(), "ScramClient", AnyServer)
    with pytest.raises(AssertionError):
        test_a_server_without_the_credential_is_not_believed(b"v=AAAA")


def test_a_client_that_connects_again_derives_nothing(derivations: Derivations) -> None:
    kept = KeptKeys()
    for number in range(3):
        server = new_server(nonce=bytes([number]) * 24)
        client = ScramClient(SHA_256, "user", "pencil", bytes([9, number]) * 12, kept)
        done = server.step(sent(client.step(sent(server.step(client.start())))))
        assert isinstance(done, Done)
        assert client.step(done.data) == Done("user")
    assert len(derivations) == 1


# ---- scram_messages.py: one byte changed


def exchanged(spoilt: int, change: Callable[[bytes], bytes]) -> bool:
    """Run an exchange in which one of the four messages is changed on its way; return whether both
    ends believe each other."""
    server, client = new_server(), new_client()
    data = client.start()
    for number in range(4):
        receiver = server if number % 2 == 0 else client
        outcome = receiver.step(change(data) if number == spoilt else data)
        if isinstance(outcome, Failed):
            return False
        data = outcome.data
    return True


MESSAGE_LENGTHS = [32, 88, 108, 46]


def test_an_exchange_that_nobody_disturbs() -> None:
    lengths: dict[int, int] = {}

    def measured(data: bytes) -> bytes:
        lengths[len(lengths)] = len(data)
        return data

    assert all(exchanged(number, measured) for number in range(4))
    assert list(lengths.values()) == MESSAGE_LENGTHS


@pytest.mark.parametrize("message", range(4))
def test_no_byte_can_be_changed(message: int, derivations: Derivations) -> None:
    """Somebody notices each bit of each byte of each message that is another."""
    for place in range(MESSAGE_LENGTHS[message]):
        for bit in range(8):

            def flipped(data: bytes, place: int = place, bit: int = bit) -> bytes:
                return data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]

            assert not exchanged(message, flipped), (place, bit)
    assert derivations


@given(st.binary(max_size=200))
def test_no_bytes_whatever_get_in(data: bytes) -> None:
    server = new_server()
    assert not isinstance(server.step(data), Done)
    server = new_server()
    server.step(FIRST)
    assert isinstance(server.step(data), Failed)
    assert not isinstance(new_client().step(data), Done)


@pytest.mark.parametrize(
    "text", ["AB==", "AAB=", "AA", "A", "=", "AA=A", " AAAA", "AAAA\n", "AA-_"]
)
def test_base64_has_one_form(text: str) -> None:
    with pytest.raises(SaslSyntaxError):
        decoded(text)

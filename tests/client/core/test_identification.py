"""An identification of a client shows no secret, and asks for it anew each time."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog.core.identification import (
    Identification,
    NotAuthenticatedError,
    PasswordUser,
    TokenUser,
)
from oncelog_protocol.sasl.credential import Mechanism
from oncelog_runtime.entropy import SeededEntropy
from support.client_papers import ClientPapers


async def test_a_password_in_a_file_is_read_each_time(tmp_path: Path) -> None:
    papers = ClientPapers(tmp_path / "papers")
    path = papers.secret("one")
    user = PasswordUser("app", None, str(path))
    assert await user.secret() == "one"
    papers.secret("two")
    assert await user.secret() == "two"
    path.chmod(0o644)
    with pytest.raises(NotAuthenticatedError, match="everybody may read"):
        await user.secret()
    assert "s3cret" not in repr(PasswordUser("app", "s3cret", None))


async def test_the_first_message_names_the_first_mechanism() -> None:
    mechanisms = (Mechanism.SCRAM_SHA_512, Mechanism.SCRAM_SHA_256)
    user = PasswordUser("app", "secret", None)
    found = Identification(mechanisms, user, encrypted=False, entropy=SeededEntropy(1))
    first, second = (await found.begin()).start(), (await found.begin()).start()
    assert first.mechanism == "SCRAM-SHA-512"
    assert first.data != second.data
    assert 0 <= found.chance() < 1


def by_token(user: TokenUser) -> Identification:
    return Identification((Mechanism.OAUTHBEARER,), user, encrypted=True, entropy=SeededEntropy(1))


async def test_a_token_that_is_none() -> None:
    with pytest.raises(NotAuthenticatedError, match="see what makes the token") as caught:
        await by_token(TokenUser("a b", None)).begin()
    assert caught.value.cause


async def test_a_token_is_asked_for_each_time(tmp_path: Path) -> None:
    papers = ClientPapers(tmp_path / "papers")
    path = papers.secret("one")
    user = TokenUser(None, str(path))
    assert await user.secret() == "one"
    papers.secret("two")
    assert await user.secret() == "two"
    papers.secret("a b")
    with pytest.raises(NotAuthenticatedError, match="see token_file"):
        await by_token(user).begin()
    path.chmod(0o644)
    with pytest.raises(NotAuthenticatedError, match="everybody may read"):
        await user.secret()
    numbers = iter(range(9))

    async def later() -> str:
        return f"t{next(numbers)}"

    for made in (lambda: f"t{next(numbers)}", later):
        user = TokenUser(made, None)
        assert await user.secret() != await user.secret()
    assert "s3cret" not in repr(TokenUser("s3cret", None))


async def test_a_function_that_fails_is_not_quoted() -> None:
    async def fails() -> str:
        raise LookupError("s3cret")

    async def nothing() -> str:
        return ""

    for made, said in ((fails, "failed with LookupError"), (nothing, "returned no token")):
        with pytest.raises(NotAuthenticatedError, match=said) as caught:
            await by_token(TokenUser(made, None)).begin()
        assert "s3cret" not in str(caught.value)

"""An identification of a client shows no secret, and asks for it anew each time."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog.core.identification import Identification, NotAuthenticatedError, PasswordUser
from oncelog_protocol.sasl.credential import Mechanism
from oncelog_runtime.entropy import SeededEntropy
from support.client_papers import ClientPapers


def test_a_password_in_a_file_is_read_each_time(tmp_path: Path) -> None:
    papers = ClientPapers(tmp_path / "papers")
    path = papers.secret("one")
    user = PasswordUser("app", None, str(path))
    assert user.secret() == "one"
    papers.secret("two")
    assert user.secret() == "two"
    path.chmod(0o644)
    with pytest.raises(NotAuthenticatedError, match="everybody may read"):
        user.secret()
    assert "s3cret" not in repr(PasswordUser("app", "s3cret", None))


def test_the_first_message_names_the_first_mechanism() -> None:
    mechanisms = (Mechanism.SCRAM_SHA_512, Mechanism.SCRAM_SHA_256)
    user = PasswordUser("app", "secret", None)
    found = Identification(mechanisms, user, None, encrypted=False, entropy=SeededEntropy(1))
    first, second = found.begin().start(), found.begin().start()
    assert first.mechanism == "SCRAM-SHA-512"
    assert first.data != second.data
    assert 0 <= found.chance() < 1


def test_a_token_that_is_none() -> None:
    found = Identification(
        (Mechanism.OAUTHBEARER,), None, "a b", encrypted=True, entropy=SeededEntropy(1)
    )
    with pytest.raises(NotAuthenticatedError, match="see what makes the token") as caught:
        found.begin()
    assert caught.value.cause

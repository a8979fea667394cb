"""The file of profiles is checked, changed, and complained about when it is wrong."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_cli.exits import CommandError, UsageError
from oncelog_cli.profiles import (
    Profile,
    Profiles,
    chosen_profile,
    complete_profiles,
    load_profiles,
    profiles_path,
    save_profiles,
)

PROD = Profile(
    "a:1,b:2", "the one", {"request_timeout_ms": 5000, "acks": "all"}, {"ca_file": "/ca.pem"}
)
BOTH = Profiles("prod", "dev", {"prod": PROD, "dev": Profile("c:3")})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "profiles.toml"


def test_the_file_is_where_the_system_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/x")
    assert profiles_path() == Path("/x/oncelog/profiles.toml")
    monkeypatch.setenv("HOME", "/home/me")
    for unset in ("", "relative"):
        monkeypatch.setenv("XDG_CONFIG_HOME", unset)
        assert profiles_path() == Path("/home/me/.config/oncelog/profiles.toml")


def test_no_file_has_no_profiles(path: Path) -> None:
    assert load_profiles(path) == Profiles()


def test_what_was_written_is_read_again_and_is_its_owners(path: Path) -> None:
    save_profiles(BOTH, path)
    assert load_profiles(path) == BOTH
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]
    save_profiles(Profiles(), path)
    assert load_profiles(path) == Profiles()


def test_a_person_can_read_it(path: Path) -> None:
    save_profiles(BOTH, path)
    assert path.read_text().splitlines()[:4] == [
        'current = "prod"',
        'previous = "dev"',
        "",
        "[profiles.dev]",
    ]
    assert "[profiles.prod.options]\nrequest_timeout_ms = 5000\n" in path.read_text()


NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,10}", fullmatch=True)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)


@given(st.dictionaries(NAMES, st.builds(Profile, TEXTS, TEXTS), max_size=4))
def test_any_texts_survive(
    tmp_path_factory: pytest.TempPathFactory, given: dict[str, Profile]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    whole = Profiles(profiles=given)
    save_profiles(whole, path)
    assert load_profiles(path) == whole


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("current\n", ["line 1"]),
        ("curent = 'x'", ["unknown key curent", "did you mean current"]),
        ("current = 'x'", ["current names 'x'"]),
        ("current = 7", ["current must be text"]),
        ("profiles = 7", ["profiles must be a table"]),
        ("[profiles]\nx = 7", ["profiles.x must be a table"]),
        ("[profiles.x]\nbootstrap = ['a:1']", ["profiles.x.bootstrap must be text"]),
        ("[profiles.x]\nbootstrop = 'a:1'", ["profiles.x.bootstrop", "did you mean bootstrap"]),
        ("[profiles.x]\noptions = 1", ["profiles.x.options must be a table"]),
        ("[profiles.x]\nsecurity = 1", ["profiles.x.security must be a table"]),
        (b"\xff", ["cannot be read"]),
    ],
)
def test_a_wrong_file_is_refused_with_place_and_remedy(
    text: str | bytes, words: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "profiles.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UsageError) as caught:
        load_profiles(path)
    assert str(path) in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_using_goes_there_and_back() -> None:
    back = BOTH.used("-")
    assert (back.current, back.previous) == ("dev", "prod")
    assert back.used("-") == BOTH
    assert BOTH.used("prod") == BOTH  # it is in use: the previous one stays
    with pytest.raises(UsageError, match="no previous"):
        Profiles(profiles=BOTH.profiles).used("-")


def test_an_unknown_name_is_told_the_near_one() -> None:
    with pytest.raises(UsageError, match="did you mean 'prod'"):
        BOTH.named("pord")
    with pytest.raises(UsageError, match="there are dev, prod"):
        BOTH.named("quite-another")
    with pytest.raises(UsageError, match="profile create"):
        Profiles().named("x")


@pytest.mark.parametrize("name", ["", "-", "a b", "-x", "a/b", "x" * 65, "ä"])
def test_names_that_cannot_be(name: str) -> None:
    with pytest.raises(UsageError, match="is no name"):
        Profiles().with_profile(name, PROD)


def test_what_is_deleted_is_not_in_use() -> None:
    assert BOTH.without("prod") == Profiles(None, "dev", {"dev": Profile("c:3")})
    assert BOTH.without("dev") == Profiles("prod", None, {"prod": PROD})
    with pytest.raises(UsageError):
        BOTH.without("none")


def test_which_one_is_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen_profile(None) is None
    save_profiles(BOTH)
    assert chosen_profile(None) == ("prod", PROD)
    monkeypatch.setenv("ONCELOG_PROFILE", "dev")
    assert chosen_profile(None) == ("dev", Profile("c:3"))
    assert chosen_profile("prod") == ("prod", PROD)
    assert chosen_profile("-") == ("dev", Profile("c:3"))
    with pytest.raises(UsageError):
        chosen_profile("none")


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CommandError, match="cannot be written"):
        save_profiles(BOTH, tmp_path / "file" / "profiles.toml")


def test_the_shell_is_offered_names() -> None:
    assert complete_profiles("") == []
    save_profiles(BOTH)
    assert complete_profiles("p") == ["prod"]
    profiles_path().write_text("nonsense")
    assert complete_profiles("") == []
    assert os.path.exists(profiles_path())

"""A broker knows the users of the newest version that it was told, and says whom a change met."""

from __future__ import annotations

from dataclasses import replace

from oncelog_broker.server.users import Users
from oncelog_protocol.sasl.credential import Mechanism
from oncelog_protocol.sasl.scram_server import CredentialLookup
from oncelog_protocol.sasl.user import ScramUser
from support.sasl import CREDENTIALS, SECRET, SHA_256, SHA_512

APP = ScramUser("app", 3, (CREDENTIALS[SHA_256],))
BOTH = ScramUser("both", 4, (CREDENTIALS[SHA_256], CREDENTIALS[SHA_512]))
OWN = b"\1" * 32


def knowing(*users: ScramUser, version: int = 5) -> tuple[Users, list[set[str]]]:
    known = Users(OWN)
    told: list[set[str]] = []
    known.on_change(lambda names: told.append(set(names)))
    assert known.replace(version, SECRET, users)
    return known, told


def test_users_are_found() -> None:
    known, told = knowing(APP, BOTH)
    look_up: CredentialLookup = known.look_up
    assert look_up(SHA_256, "app") == CREDENTIALS[SHA_256]
    assert look_up(SHA_512, "both") == CREDENTIALS[SHA_512]
    assert look_up(SHA_512, "app") is None
    assert look_up(Mechanism.PLAIN, "app") is None
    assert look_up(SHA_256, "App") is None
    assert (known.version, known.secret) == (5, SECRET)
    assert told == [], "nobody was there before"


def test_before_anything_is_known_there_is_nobody_but_a_secret() -> None:
    known = Users(OWN)
    assert known.look_up(SHA_256, "app") is None
    assert not known.holds("app", 100)
    assert (known.version, known.secret) == (-1, OWN)
    assert not known.change(-1, 1, {"app": APP})
    assert known.look_up(SHA_256, "app") is None


def test_a_disabled_user_is_as_none() -> None:
    known, _ = knowing(replace(APP, disabled=True))
    assert known.look_up(SHA_256, "app") is None
    assert not known.holds("app", 5)


def test_a_change_tells_whom_it_has_met() -> None:
    known, told = knowing(APP, BOTH)
    assert known.change(5, 6, {"app": replace(APP, generation=6, disabled=True)})
    assert known.look_up(SHA_256, "app") is None
    assert known.change(6, 7, {"app": None, "new": replace(APP, name="new", generation=7)})
    assert known.change(7, 8, {"new": None, "nobody": None})
    assert known.change(8, 9, {})
    assert told == [{"app"}, {"app"}, {"new"}]
    assert (known.version, known.secret) == (9, SECRET)
    assert known.look_up(SHA_256, "both") == CREDENTIALS[SHA_256]


def test_all_that_there_is_tells_whom_it_has_met() -> None:
    known, told = knowing(APP, BOTH)
    assert known.replace(8, SECRET, [replace(BOTH, generation=8), replace(APP, name="new")])
    assert told == [{"app", "both"}]
    assert known.replace(9, SECRET, [replace(BOTH, generation=8), replace(APP, name="new")])
    assert told == [{"app", "both"}]


def test_no_secret_leaves_the_present_one() -> None:
    known, _ = knowing(APP)
    assert known.replace(6, b"", [APP])
    assert known.secret == SECRET


def test_a_follower_finds_the_new_state() -> None:
    known, _ = knowing(APP)
    found = []
    known.on_change(lambda names: found.append([known.look_up(SHA_256, each) for each in names]))
    known.change(5, 6, {"app": None})
    assert found == [[None]]


def test_what_was_told_holds_until_the_user_changes() -> None:
    known, _ = knowing(APP, BOTH)
    assert known.holds("app", 5)
    known.change(5, 6, {"app": replace(APP, generation=6)})
    assert not known.holds("app", 5), "another password, perhaps"
    assert known.holds("app", 6)
    assert known.holds("both", 5)
    known.change(6, 7, {"both": None})
    assert not known.holds("both", 6)


def test_an_older_version_is_ignored() -> None:
    known, told = knowing(APP)
    assert not known.replace(5, OWN, [])
    assert not known.replace(4, OWN, [])
    assert known.change(3, 4, {"app": None})
    assert (known.version, known.secret, told) == (5, SECRET, [])
    assert known.look_up(SHA_256, "app") is not None


def test_a_change_to_a_later_version_than_the_present_one_is_not_taken() -> None:
    known, told = knowing(APP)
    assert not known.change(6, 7, {"app": None})
    assert (known.version, told) == (5, [])


def test_a_change_may_begin_before_the_present_version() -> None:
    known, told = knowing(APP)
    assert known.change(4, 7, {"app": APP, "both": BOTH})
    assert known.look_up(SHA_512, "both") == CREDENTIALS[SHA_512]
    assert (known.version, told) == (7, [])

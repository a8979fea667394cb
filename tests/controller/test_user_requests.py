"""Users are made, changed, listed and deleted; what is refused takes nothing else with it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog_controller import security_nodes, user_nodes
from oncelog_controller.store import check_request_size
from oncelog_protocol import limits
from oncelog_protocol.errors import (
    DuplicateResourceError,
    InvalidRequestError,
    PolicyViolationError,
    RequestTimedOutError,
    ResourceNotFoundError,
    UnacceptableCredentialError,
)
from oncelog_protocol.messages.security import FULL, UpdateSecurityRequest
from oncelog_protocol.messages.users import (
    CREATE,
    DELETE,
    DISABLE,
    ENABLE,
    SET_PASSWORD,
    AlterUsersRequest,
    DescribedMechanism,
    DescribedUser,
    DescribeUsersRequest,
    UserWish,
)
from oncelog_protocol.sasl.credential import ScramCredential
from oncelog_protocol.sasl.user import CredentialRow, ScramUser, UserRow
from support.controller_driver import SECRET, Driver
from support.room_settings import controller_settings
from support.sasl import CREDENTIALS, SALT, SHA_256, SHA_512

ROW = CredentialRow.of(CREDENTIALS[SHA_256])
OTHER = CredentialRow.of(ScramCredential.make(SHA_256, "pen", SALT, 4097))
ROW_512 = CredentialRow.of(CREDENTIALS[SHA_512])


def with_users() -> Driver:
    return Driver.started(1, 2, config=controller_settings(security=True))


def alter(driver: Driver, *wishes: UserWish, validate_only: bool = False) -> list[int]:
    response = driver.ask(AlterUsersRequest(list(wishes), validate_only))
    assert response.error_code == 0
    assert [result.name for result in response.results] == [wish.name for wish in wishes]
    return [result.error_code for result in response.results]


def kept(driver: Driver) -> dict[str, ScramUser]:
    security = driver.machine.cluster.security
    assert security is not None
    return {name: stored.user for name, stored in security.users.items()}


def described(driver: Driver, *names: str) -> list[DescribedUser]:
    response = driver.ask(DescribeUsersRequest(list(names) or None))
    assert response.error_code == 0
    assert response.version == driver.nodes[security_nodes.VERSION].version
    users: list[DescribedUser] = response.users
    return users


def add(name: str, *rows: CredentialRow) -> UserWish:
    return UserWish(name, CREATE, list(rows) or [ROW])


def test_what_was_made_is_listed_also_by_the_next_controller() -> None:
    driver = with_users()
    assert alter(driver, add("b", ROW_512, ROW), add("a")) == [0, 0]
    sha_256, sha_512 = (DescribedMechanism(str(each), 4096) for each in (SHA_256, SHA_512))
    both = DescribedUser("b", mechanisms=[sha_256, sha_512])
    one = DescribedUser("a", mechanisms=[sha_256])
    for controller in (driver, driver.take_over()):
        assert described(controller) == [one, both]
        found, missing = described(controller, "b", "c")
        assert found == both
        assert missing.error_code == ResourceNotFoundError.code
        assert missing.error_message == "there is no user 'c'"
    assert kept(driver)["b"] == ScramUser("b", 1, (CREDENTIALS[SHA_256], CREDENTIALS[SHA_512]))


def test_a_user_who_is_there_is_not_made_again() -> None:
    driver = with_users()
    alter(driver, add("app"))
    writes = len(driver.writes)
    assert alter(driver, add("app")) == [0], "nothing changes"
    assert alter(driver, add("app", OTHER)) == [DuplicateResourceError.code]
    assert len(driver.writes) == writes
    assert kept(driver)["app"].generation == 1


def test_a_new_password_is_the_only_one() -> None:
    driver = with_users()
    alter(driver, add("app", ROW, ROW_512), add("off"), UserWish("off", DISABLE))
    assert alter(
        driver,
        UserWish("app", SET_PASSWORD, [OTHER]),
        UserWish("off", SET_PASSWORD, [OTHER]),
        UserWish("nobody", SET_PASSWORD, [OTHER]),
    ) == [0, 0, ResourceNotFoundError.code]
    assert kept(driver)["app"] == ScramUser("app", 2, (OTHER.checked(),))
    assert kept(driver)["off"] == ScramUser("off", 2, (OTHER.checked(),), disabled=True)


def test_users_are_disabled_enabled_and_deleted() -> None:
    driver = with_users()
    alter(driver, add("app"), add("other"))
    off, on = UserWish("app", DISABLE), UserWish("app", ENABLE)
    for wish, disabled, generation in ((off, True, 2), (off, True, 2), (on, False, 3)):
        assert alter(driver, wish) == [0]
        assert kept(driver)["app"] == ScramUser(
            "app", generation, (CREDENTIALS[SHA_256],), disabled
        )
    for wish in (off, on, UserWish("app", DELETE)):
        assert alter(driver, replace(wish, name="nobody")) == [ResourceNotFoundError.code]
    assert alter(driver, UserWish("app", DELETE)) == [0]
    assert user_nodes.user_path("app") not in driver.nodes
    assert [user.name for user in described(driver)] == ["other"]
    alter(driver, add("app"))
    assert kept(driver)["app"].generation == 5, "it grows over a deletion, too"


def test_what_is_refused_takes_no_other_with_it() -> None:
    driver = with_users()
    weak, twice = replace(ROW, iterations=1), [ROW, OTHER]
    wishes = [
        add("good"),
        add("a b"),
        UserWish("none", CREATE),
        add("weak", weak),
        UserWish("twice", CREATE, twice),
        UserWish("good", "FLY"),
        UserWish("good", DELETE, [ROW]),
    ]
    unacceptable = [UnacceptableCredentialError.code] * 4
    invalid = [InvalidRequestError.code] * 2
    assert alter(driver, *wishes) == [0, *unacceptable, *invalid]
    assert list(kept(driver)) == ["good"]


def test_wishes_are_met_in_their_order() -> None:
    driver = with_users()
    alter(driver, add("app"))
    assert alter(driver, UserWish("app", DELETE), add("app", OTHER)) == [0, 0]
    assert kept(driver)["app"] == ScramUser("app", 2, (OTHER.checked(),))
    writes = len(driver.writes)
    assert alter(driver, add("new"), UserWish("new", DELETE)) == [0, 0]
    assert len(driver.writes) == writes


def test_a_trial_changes_nothing_and_tells_the_same() -> None:
    driver = with_users()
    tried = alter(driver, add("app"), add("a b"), UserWish("app", DISABLE), validate_only=True)
    assert tried == [0, UnacceptableCredentialError.code, 0]
    assert kept(driver) == {}


def test_no_answer_and_no_error_shows_a_key() -> None:
    driver = with_users()
    alter(driver, add("app"))
    shown = repr(driver.ask(AlterUsersRequest([add("app", replace(ROW, iterations=1))])))
    shown += repr(driver.ask(DescribeUsersRequest())) + repr(AlterUsersRequest([add("app")]))
    for key in (ROW.stored_key, ROW.server_key):
        assert repr(key)[2:-1] not in shown


# ---- what brokers are told


def told(driver: Driver) -> list[UpdateSecurityRequest]:
    return [each for _, each in driver.requests if isinstance(each, UpdateSecurityRequest)]


def test_brokers_are_told_everything_then_what_has_changed() -> None:
    driver = with_users()
    everything = [(each.base, each.secret, each.users) for each in told(driver)]
    assert everything == [(FULL, SECRET, [])] * 2
    alter(driver, add("app"), add("other"))
    alter(driver, UserWish("app", DELETE), UserWish("other", DISABLE))
    other = ScramUser("other", 2, (CREDENTIALS[SHA_256],), disabled=True)
    for each in told(driver)[-2:]:
        assert (each.base, each.version, each.secret) == (1, 2, b"")
        assert each.users == [UserRow("app"), UserRow.of(other)]
    for each in told(driver.take_over()):
        assert (each.base, each.version, each.secret) == (FULL, 2, SECRET)
        assert each.users == [UserRow.of(other)]


# ---- bounds


def test_there_are_so_many_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "USERS_MAX", 2)
    driver = with_users()
    assert alter(driver, add("a"), add("b"), add("c")) == [0, 0, PolicyViolationError.code]
    assert alter(driver, UserWish("a", DELETE), add("c"), add("d")) == [
        0,
        0,
        PolicyViolationError.code,
    ]
    assert sorted(kept(driver)) == ["b", "c"]


def test_a_request_has_so_many_users_and_the_store_takes_them() -> None:
    driver = with_users()
    count = limits.USERS_OF_REQUEST_MAX
    wishes = [add(f"{number:0128}", ROW, ROW_512) for number in range(count + 1)]
    for request in (AlterUsersRequest(wishes), DescribeUsersRequest(["a"] * (count + 1))):
        assert driver.ask(request).error_code == InvalidRequestError.code
    assert alter(driver, *wishes[:count]) == [0] * count
    check_request_size(driver.writes[-1])


# ---- a write whose outcome is not known


@pytest.mark.parametrize("applied", [False, True])
def test_of_a_change_that_was_cut_off_nobody_can_say_what_became(applied: bool) -> None:
    driver = with_users()
    driver.disconnect_once(applied=applied)
    request_id = driver.ask_later(AlterUsersRequest([add("app")]))
    assert request_id not in driver.replies
    driver.load()
    response = driver.replies[request_id]
    assert response.error_code == RequestTimedOutError.code
    assert [result.error_code for result in response.results] == [RequestTimedOutError.code]
    assert list(kept(driver)) == (["app"] if applied else [])

"""ACLs are made, listed and taken back; what is refused takes nothing else with it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog_controller import acl_requests, security_nodes
from oncelog_controller.store import REQUEST_BYTES_MAX, check_request_size
from oncelog_protocol import limits
from oncelog_protocol.acls import (
    ALL,
    ALLOW,
    CLUSTER,
    CLUSTER_NAME,
    CREATE,
    DENY,
    GROUP,
    LITERAL,
    MATCH,
    PREFIXED,
    READ,
    TOPIC,
    WRITE,
    AclBinding,
    AclBindingFilter,
)
from oncelog_protocol.errors import (
    InvalidRequestError,
    PolicyViolationError,
    RequestTimedOutError,
)
from oncelog_protocol.messages.acls import (
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from support.controller_driver import Driver
from support.room_settings import controller_settings

ENTRY = AclBinding(TOPIC, LITERAL, "orders", "User:app", "*", WRITE, ALLOW)
DENIED = replace(ENTRY, permission=DENY)
PREFIX = replace(ENTRY, pattern_type=PREFIXED, name="or")
GROUPS = AclBinding(GROUP, LITERAL, "a/b", "User:app", "10.0.0.1", READ, ALLOW)


def secured() -> Driver:
    return Driver.started(1, 2, config=controller_settings(security=True))


def create(driver: Driver, *entries: AclBinding, validate_only: bool = False) -> list[int]:
    response = driver.ask(CreateAclsRequest(list(entries), validate_only))
    assert response.error_code == 0
    return [result.error_code for result in response.results]


def kept(driver: Driver, wanted: AclBindingFilter | None = None) -> list[AclBinding]:
    response = driver.ask(DescribeAclsRequest(wanted or AclBindingFilter()))
    assert response.error_code == 0
    entries: list[AclBinding] = response.entries
    return entries


def version(driver: Driver) -> int:
    found: int = driver.ask(DescribeAclsRequest(AclBindingFilter())).version
    assert found == driver.nodes[security_nodes.VERSION].version
    return found


def test_what_was_made_is_listed_also_by_the_next_controller() -> None:
    driver = secured()
    assert create(driver, ENTRY, GROUPS, PREFIX, DENIED) == [0, 0, 0, 0]
    everything = [GROUPS, ENTRY, DENIED, PREFIX]
    assert kept(driver) == everything
    assert version(driver) == 1
    heir = driver.take_over()
    assert kept(heir) == everything
    assert version(heir) == 1
    assert kept(heir, AclBindingFilter(TOPIC, MATCH, "orders")) == [ENTRY, DENIED, PREFIX]
    assert kept(heir, AclBindingFilter(permission=DENY)) == [DENIED]


@pytest.mark.cve("2024-27309")
def test_all_entries_of_a_pattern_are_one_node() -> None:
    driver = secured()
    create(driver, ENTRY)
    create(driver, DENIED, replace(ENTRY, principal="User:*"))
    path = security_nodes.acls_path(ENTRY.pattern)
    assert [node for node in driver.nodes if node.startswith(path)] == [path]
    assert driver.nodes[path].version == 1
    assert version(driver) == 2


@pytest.mark.hostile(46)
def test_an_entry_that_is_there_is_no_change() -> None:
    driver = secured()
    assert create(driver, *[ENTRY] * limits.ACLS_OF_REQUEST_MAX) == [0] * 1000
    assert kept(driver) == [ENTRY]
    writes = len(driver.writes)
    assert create(driver, ENTRY) == [0]
    assert len(driver.writes) == writes
    assert version(driver) == 1


def test_what_is_refused_takes_no_other_with_it() -> None:
    driver = secured()
    response = driver.ask(CreateAclsRequest([replace(ENTRY, name="a/b"), ENTRY]))
    refused, made = response.results
    assert (refused.error_code, made.error_code) == (InvalidRequestError.code, 0)
    assert "no topic can have the name 'a/b'" in refused.error_message
    assert kept(driver) == [ENTRY]
    assert response.version == 1


def test_kafkas_name_of_the_cluster_is_kept_as_ours() -> None:
    driver = secured()
    create(driver, AclBinding(CLUSTER, LITERAL, "kafka-cluster", "User:a", "*", CREATE, ALLOW))
    ((entry,),) = [kept(driver)]
    assert entry.name == CLUSTER_NAME
    assert kept(driver, AclBindingFilter(CLUSTER, name="kafka-cluster")) == [entry]


def test_a_trial_changes_nothing_and_tells_the_same() -> None:
    driver = secured()
    tried = create(driver, ENTRY, replace(ENTRY, host="nowhere"), validate_only=True)
    assert tried == [0, InvalidRequestError.code]
    assert kept(driver) == []
    create(driver, ENTRY, DENIED)
    response = driver.ask(DeleteAclsRequest([AclBindingFilter(permission=DENY)], True))
    assert [result.entries for result in response.results] == [[DENIED]]
    assert kept(driver) == [ENTRY, DENIED]
    assert version(driver) == 1


def test_filters_take_back_what_they_choose_each_entry_once() -> None:
    driver = secured()
    create(driver, ENTRY, DENIED, PREFIX, GROUPS)
    response = driver.ask(
        DeleteAclsRequest(
            [
                AclBindingFilter(TOPIC, LITERAL, "orders", permission=DENY),
                AclBindingFilter(resource_type="TABLE"),
                AclBindingFilter(TOPIC),
                AclBindingFilter(TOPIC, LITERAL, "unknown"),
            ]
        )
    )
    assert [result.error_code for result in response.results] == [
        0,
        InvalidRequestError.code,
        0,
        0,
    ]
    assert [result.entries for result in response.results] == [[DENIED], [], [ENTRY, PREFIX], []]
    assert kept(driver) == [GROUPS]
    assert (response.version, version(driver)) == (2, 2)
    assert security_nodes.acls_path(ENTRY.pattern) not in driver.nodes
    assert kept(driver.take_over()) == [GROUPS]


def test_a_filter_that_cannot_choose_is_refused() -> None:
    response = secured().ask(DescribeAclsRequest(AclBindingFilter(operation="FLY")))
    assert response.error_code == InvalidRequestError.code
    assert "'FLY' is no operation" in response.error_message


# ---- bounds


def test_a_request_has_so_many_entries_or_filters() -> None:
    driver = secured()
    count = limits.ACLS_OF_REQUEST_MAX + 1
    for request in (
        CreateAclsRequest([ENTRY] * count),
        DeleteAclsRequest([AclBindingFilter()] * count),
    ):
        assert driver.ask(request).error_code == InvalidRequestError.code
    many = [AclBindingFilter(name="x")] * (acl_requests.OPEN_FILTERS_MAX + 1)
    codes = [r.error_code for r in driver.ask(DeleteAclsRequest(many)).results]
    assert codes == [0] * acl_requests.OPEN_FILTERS_MAX + [InvalidRequestError.code]


@pytest.mark.parametrize(
    ("name", "bound", "reason"),
    [
        ("ACLS_MAX", 2, "the cluster has 2 ACLs, the most it may"),
        ("ACLS_CHARS_MAX", 80, "would have more than 80 characters"),
        ("ACLS_OF_ONE_PATTERN_CHARS_MAX", 80, "the ACLs of 'orders' would have more than 80"),
    ],
)
@pytest.mark.hostile(46)
def test_there_are_so_many_acls(
    monkeypatch: pytest.MonkeyPatch, name: str, bound: int, reason: str
) -> None:
    monkeypatch.setattr(limits, name, bound)
    driver = secured()
    wishes = [ENTRY, DENIED, replace(ENTRY, operation=ALL)]
    *made, refused = driver.ask(CreateAclsRequest(wishes)).results
    assert [result.error_code for result in made] == [0, 0]
    assert refused.error_code == PolicyViolationError.code
    assert reason in refused.error_message
    assert kept(driver) == wishes[:2]
    assert create(driver, ENTRY) == [0], "what is there needs no room"


def test_a_large_change_goes_in_several_writes_that_the_store_takes() -> None:
    driver = secured()
    long = "\U0001f600" * 400
    wishes = [
        replace(GROUPS, name=f"{number}{long}", principal="User:" + "\U0001f600" * 250)
        for number in range(200)
    ]
    assert create(driver, *wishes) == [0] * 200
    assert len(driver.writes) > 1
    for ops in driver.writes:
        check_request_size(ops)
    assert version(driver) == len(driver.writes)
    assert set(kept(driver.take_over())) == set(wishes)
    assert REQUEST_BYTES_MAX >= 12 * limits.ACLS_OF_ONE_PATTERN_CHARS_MAX


# ---- a write whose outcome is not known


@pytest.mark.parametrize("applied", [False, True])
def test_a_creation_that_was_cut_off_is_done_again(applied: bool) -> None:
    driver = secured()
    driver.disconnect_once(applied=applied)
    request_id = driver.ask_later(CreateAclsRequest([ENTRY]))
    assert request_id not in driver.replies
    driver.load()
    assert driver.replies[request_id].results[0].error_code == 0
    assert kept(driver) == [ENTRY]
    assert version(driver) == 1


@pytest.mark.parametrize("applied", [False, True])
def test_of_a_deletion_that_was_cut_off_nobody_can_say_what_became(applied: bool) -> None:
    driver = secured()
    create(driver, ENTRY)
    driver.disconnect_once(applied=applied)
    request_id = driver.ask_later(DeleteAclsRequest([AclBindingFilter()]))
    driver.load()
    assert driver.replies[request_id].error_code == RequestTimedOutError.code
    assert kept(driver) == ([] if applied else [ENTRY])

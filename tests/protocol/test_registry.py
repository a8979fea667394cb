"""Each API key has one class, and two sides agree on a version."""

from __future__ import annotations

import dataclasses
import inspect

import pytest

from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.messages.fetch import FetchRequest
from oncelog_protocol.registry import REQUESTS, negotiate, supported_ranges
from support.messages import apis


class Evolved(FetchRequest):
    """This release speaks such a Fetch in versions 2 to 5."""

    versions = (2, 5)


def test_every_api_key_has_its_request() -> None:
    assert sorted(REQUESTS) == sorted(ApiKey)


@pytest.mark.parametrize("api", apis(), ids=lambda api: api.__name__)
def test_what_a_request_class_declares(api: type[Request]) -> None:
    assert REQUESTS[api.api_key] is api
    assert api.__name__.endswith("Request")
    assert api.response.__name__ == api.__name__.removesuffix("Request") + "Response"
    assert 0 <= api.versions[0] <= api.versions[1]
    assert dataclasses.fields(api.response)
    assert inspect.cleandoc(api.__doc__ or "")


@pytest.mark.parametrize("api", apis(), ids=lambda api: api.__name__)
def test_every_answer_can_carry_an_error_for_the_whole_request(api: type[Request]) -> None:
    names = [field.name for field in dataclasses.fields(api.response)]
    assert "error_code" in names


def test_the_ranges_are_sorted_and_complete() -> None:
    ranges = supported_ranges()
    assert [r.api_key for r in ranges] == sorted(REQUESTS)
    assert all(r.version_min <= r.version_max for r in ranges)


def test_orders_between_brokers_are_marked() -> None:
    marked = {api.api_key.name for api in apis() if api.between_brokers}
    assert marked == {
        "LEADER_AND_ISR",
        "STOP_REPLICA",
        "UPDATE_METADATA",
        "UPDATE_SECURITY",
        "ALTER_PARTITION",
        "CONTROLLED_SHUTDOWN",
        "ALLOCATE_PRODUCER_IDS",
        "BROKER_REPORT",
        "WRITE_TXN_MARKERS",
    }


@pytest.mark.parametrize(
    ("theirs", "agreed"),
    [
        ((0, 1), None),
        ((0, 2), 2),
        ((2, 5), 5),
        ((3, 4), 4),
        ((0, 99), 5),
        ((5, 99), 5),
        ((6, 99), None),
        ((4, 3), None),
    ],
)
def test_line_20_the_highest_version_of_both_or_none(
    theirs: tuple[int, int], agreed: int | None
) -> None:
    assert negotiate(Evolved, {ApiKey.FETCH: theirs}) == agreed


def test_an_api_that_the_other_side_does_not_offer() -> None:
    assert negotiate(Evolved, {ApiKey.PRODUCE: (0, 5)}) is None

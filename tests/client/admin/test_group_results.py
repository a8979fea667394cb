"""A group's reset is fitted to the log; errors about groups name members."""

from __future__ import annotations

import pytest

from oncelog import OffsetReset, TopicPartition
from oncelog.admin.group_results import (
    CommittedOffset,
    GroupDescription,
    GroupHasMembersError,
    GroupListing,
    GroupListings,
    GroupOffset,
    MemberDescription,
    PlannedOffset,
    ResetPlan,
    planned,
)
from oncelog.admin.results import AdminError
from oncelog.errors import ConfigurationError
from oncelog_protocol.errors import CoordinatorLoadInProgressError, CoordinatorNotAvailableError

TP = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("wish", "new", "note"),
    [
        (4, 4, "as given"),
        (2, 2, "as given"),
        (9, 9, "as given"),
        (1, 2, "1 is below the log start, 2 instead"),
        (10, 9, "10 is beyond the end, 9 instead"),
        (None, None, "as given"),
    ],
)
def test_a_wish_is_fitted_to_the_log(wish: int | None, new: int | None, note: str) -> None:
    row = planned(TP, 3, wish, (2, 9), "as given")
    assert row == PlannedOffset(TP, 3, new, 2, 9, note)


def test_a_plan_writes_what_can_be_written() -> None:
    rows = (planned(TP, 3, 5, (0, 9)), planned(TopicPartition("t", 1), None, None, (0, 9)))
    assert ResetPlan("g", rows).offsets == {TP: 5}


def test_the_lag_of_a_group_is_a_sum_or_not_known() -> None:
    def description(*lags: int | None) -> GroupDescription:
        offsets = tuple(GroupOffset(TP, CommittedOffset(1), 0, 1, lag) for lag in lags)
        return GroupDescription("g", offsets=offsets)

    assert description(3, 0, 4).lag == 7
    assert description(3, None).lag is None
    assert description().lag is None


def test_members_are_named_by_what_an_operator_knows() -> None:
    static = MemberDescription("m1-uuid", "worker-1", "app", "10.0.0.1")
    other = MemberDescription("m2-uuid", None, "app", "10.0.0.2")
    error = GroupHasMembersError("g", [static, other])
    assert str(error) == (
        "group 'g' has live members: worker-1 (10.0.0.1), m2-uuid (10.0.0.2); stop them first, or "
        "wait until their sessions have timed out"
    )
    assert error.members == (static, other)
    assert "has live members; stop" in str(GroupHasMembersError("g", []))


def test_a_list_with_holes_can_be_refused() -> None:
    group = GroupListing("g", "Empty", "consumer", 0, 1)
    listed = GroupListings([group])
    assert listed.raise_for_errors() is listed
    assert (list(listed), len(listed), listed[0], listed[:1]) == ([group], 1, group, (group,))
    assert "GroupListings([GroupListing(" in repr(listed)
    loading = CoordinatorLoadInProgressError()
    with pytest.raises(CoordinatorLoadInProgressError):
        GroupListings([group], {1: loading}).raise_for_errors()
    with pytest.raises(AdminError) as caught:
        GroupListings([], {1: loading, 2: CoordinatorNotAvailableError()}).raise_for_errors()
    assert len(caught.value.errors) == 2


def test_a_place_that_cannot_be_is_refused() -> None:
    assert OffsetReset.shift_by(-5) == OffsetReset("shift", -5)
    for bad in (-1, True, "1"):
        with pytest.raises(ConfigurationError):
            OffsetReset.to_offset(bad)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError):
            OffsetReset.to_timestamp(bad)  # type: ignore[arg-type]

"""Brokers are told in full what they decide by, or what has changed since."""

from __future__ import annotations

from dataclasses import replace

from oncelog_controller.security_orders import (
    SLICE_CHARS,
    SLICE_QUOTAS,
    SLICE_USERS,
    SecurityOrder,
    told,
    weight,
)
from oncelog_protocol import limits
from oncelog_protocol.acls import ALLOW, DENY, LITERAL, TOPIC, WRITE, AclBinding
from oncelog_protocol.frame import encode_frame
from oncelog_protocol.limits import HEAD_BYTES_MAX
from oncelog_protocol.messages.security import FULL
from oncelog_protocol.quotas import (
    CLIENT_QUOTA_KEYS,
    PRODUCER_BYTE_RATE,
    REQUEST_RATE,
    QuotaEntity,
)
from oncelog_protocol.sasl.user import ScramUser, UserRow
from oncelog_protocol.schema import encode
from support.sasl import CREDENTIALS, SECRET, SHA_256, SHA_512

HEAD = (1, 2, 3)
ALLOWED = AclBinding(TOPIC, LITERAL, "orders", "User:app", "*", WRITE, ALLOW)
DENIED = replace(ALLOWED, permission=DENY)
OTHER = replace(ALLOWED, name="payments")
APP = ScramUser("app", 4, (CREDENTIALS[SHA_256],))


def change(version: int, *entries: AclBinding, base: int | None = None) -> SecurityOrder:
    since = version - 1 if base is None else base
    return SecurityOrder(since, version, {ALLOWED.pattern: entries})


def test_changes_that_follow_each_other_are_one() -> None:
    both = change(4, ALLOWED).merged_with(SecurityOrder(4, 5, {OTHER.pattern: (OTHER,)}))
    both = both.merged_with(change(6, ALLOWED, DENIED))
    assert (both.base, both.version, both.full) == (3, 6, False)
    assert both.acls == {ALLOWED.pattern: (ALLOWED, DENIED), OTHER.pattern: (OTHER,)}


def test_a_change_of_everything_is_everything() -> None:
    everything = SecurityOrder(FULL, 4, {OTHER.pattern: (OTHER,)})
    merged = everything.merged_with(change(5, ALLOWED))
    assert (merged.full, merged.version, len(merged.acls)) == (True, 5, 2)
    assert everything.acls == {OTHER.pattern: (OTHER,)}, "what others are told is left alone"
    assert change(3, ALLOWED).merged_with(everything) is everything


def test_what_is_older_changes_nothing_and_a_gap_is_left_to_the_broker() -> None:
    everything = SecurityOrder(FULL, 4, {})
    for older in (None, change(4, ALLOWED), change(2, ALLOWED), SecurityOrder(FULL, 3, {})):
        assert everything.merged_with(older) is everything
    later = change(9, ALLOWED)
    assert everything.merged_with(later) is later


def test_everything_goes_in_slices_of_whole_patterns_that_are_made_once() -> None:
    entries = [replace(ALLOWED, name=f"{n}-" + "x" * 200) for n in range(1000)]
    order = SecurityOrder(FULL, 4, {entry.pattern: (entry,) for entry in entries})
    slices = order.requests(HEAD)
    assert len(slices) > 2
    assert [each.name for one in slices for each in one.acls] == [entry.name for entry in entries]
    assert [one.first for one in slices] == [True, *[False] * (len(slices) - 1)]
    assert [one.last for one in slices] == [*[False] * (len(slices) - 1), True]
    assert {(one.base, one.version) for one in slices} == {(FULL, 4)}
    assert sum(map(weight, slices)) == 2 * len(entries)
    for one, again in zip(slices, order.requests((9, 9, 9)), strict=True):
        assert one.acls is again.acls
    (alone,) = SecurityOrder(FULL, 0, {}).requests(HEAD)
    assert (alone.first, alone.last, alone.acls) == (True, True, [])


def test_a_change_is_one_message_and_says_the_same_when_it_is_told_again() -> None:
    order = change(4, ALLOWED, DENIED)
    (request,) = order.requests(HEAD)
    again = told(request)
    assert (again.base, again.version) == (3, 4)
    assert again.acls == order.acls


def test_the_longest_slice_fits_a_frame() -> None:
    count = limits.ACLS_OF_ONE_PATTERN_CHARS_MAX // 100
    longest = tuple(
        replace(ALLOWED, principal=f"User:{n:06}" + "\U0001f600" * 60) for n in range(count)
    )
    before = replace(ALLOWED, name="x" * 200)
    filled = tuple(replace(before, principal=f"User:{n}") for n in range(SLICE_CHARS // 320))
    order = SecurityOrder(FULL, 1, {before.pattern: filled, ALLOWED.pattern: longest})
    for request in order.requests(HEAD):
        assert len(encode_frame(encode(request, 0))) < HEAD_BYTES_MAX


# ---- users


def test_changes_of_users_are_merged_as_well() -> None:
    everything = SecurityOrder(FULL, 4, {}, {"app": APP, "old": APP}, SECRET)
    newer = replace(APP, generation=5)
    merged = everything.merged_with(SecurityOrder(4, 5, {}, {"app": newer, "old": None}))
    merged = merged.merged_with(change(6, ALLOWED))
    assert (merged.full, merged.version, merged.secret) == (True, 6, SECRET)
    assert merged.users == {"app": newer, "old": None}
    assert merged.acls == {ALLOWED.pattern: (ALLOWED,)}


def test_a_change_of_users_says_the_same_when_it_is_told_again() -> None:
    order = SecurityOrder(3, 4, {}, {"app": APP, "old": None})
    (request,) = order.requests(HEAD)
    assert request.users == [UserRow.of(APP), UserRow("old")]
    assert weight(request) == 2
    again = told(request)
    assert (again.base, again.version, again.users, again.secret) == (3, 4, order.users, b"")


def test_users_go_in_slices_beside_acls_and_fit_a_frame() -> None:
    both = (CREDENTIALS[SHA_256], CREDENTIALS[SHA_512])
    count = 2 * SLICE_USERS + 1
    users = {f"{n:0128}": ScramUser(f"{n:0128}", 1, both) for n in range(count)}
    order = SecurityOrder(FULL, 4, {ALLOWED.pattern: (ALLOWED,)}, users, SECRET)
    slices = order.requests(HEAD)
    assert [len(one.users) for one in slices] == [SLICE_USERS, SLICE_USERS, 1]
    assert [len(one.acls) for one in slices] == [1, 0, 0]
    assert {one.secret for one in slices} == {SECRET}
    assert [one.last for one in slices] == [False, False, True]
    for one in slices:
        assert len(encode_frame(encode(one, 0))) < HEAD_BYTES_MAX
    assert slices[0].users is order.requests((9, 9, 9))[0].users
    assert repr(SECRET) not in repr(order) + repr(slices[0])


# ---- quotas

QUOTAS = {
    QuotaEntity("app"): {PRODUCER_BYTE_RATE: 5.0},
    QuotaEntity(None, "c"): {REQUEST_RATE: 1.0},
}
NO_MORE: dict[QuotaEntity, dict[str, float]] = {QuotaEntity("app"): {}}


def test_changes_of_quotas_are_merged_as_well() -> None:
    everything = SecurityOrder(FULL, 4, {}, quotas=QUOTAS)
    merged = everything.merged_with(SecurityOrder(4, 5, {}, quotas=NO_MORE))
    merged = merged.merged_with(change(6, ALLOWED))
    assert (merged.full, merged.version) == (True, 6)
    assert merged.quotas == {**QUOTAS, **NO_MORE}
    assert merged.acls == {ALLOWED.pattern: (ALLOWED,)}


def test_a_change_of_quotas_says_the_same_when_it_is_told_again() -> None:
    order = SecurityOrder(3, 4, {}, quotas={**QUOTAS, **NO_MORE})
    (request,) = order.requests(HEAD)
    assert weight(request) == 2
    assert told(request).quotas == order.quotas


def test_quotas_go_in_slices_beside_acls_and_users_and_fit_a_frame() -> None:
    values = dict.fromkeys(CLIENT_QUOTA_KEYS, 1.5)
    count = 2 * SLICE_QUOTAS + 1
    quotas = {QuotaEntity(f"{n:0255}", "\U0001f600" * 255): values for n in range(count)}
    order = SecurityOrder(FULL, 4, {ALLOWED.pattern: (ALLOWED,)}, {"app": APP}, SECRET, quotas)
    slices = order.requests(HEAD)
    assert [len(one.quotas) for one in slices] == [SLICE_QUOTAS, SLICE_QUOTAS, 1]
    assert [len(one.users) for one in slices] == [1, 0, 0]
    assert [len(one.acls) for one in slices] == [1, 0, 0]
    for one in slices:
        assert len(encode_frame(encode(one, 0))) < HEAD_BYTES_MAX
    assert slices[0].quotas is order.requests((9, 9, 9))[0].quotas

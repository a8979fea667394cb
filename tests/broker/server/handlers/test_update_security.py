"""UpdateSecurity is fenced, counts when its last slice has come, and asks for all when it must."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from oncelog_broker.server.acl_authorizer import AclAuthorizer
from oncelog_broker.server.handlers.update_security import UpdateSecurityHandler
from oncelog_broker.server.known_quotas import KnownQuotas
from oncelog_broker.server.users import Users
from oncelog_protocol import schema
from oncelog_protocol.acls import ALLOW, DENY, LITERAL, TOPIC, WRITE, AclBinding
from oncelog_protocol.errors import (
    InvalidRequestError,
    StaleBrokerEpochError,
    StaleControllerEpochError,
    UnacceptableCredentialError,
)
from oncelog_protocol.messages.security import FULL, PatternAcls, UpdateSecurityRequest
from oncelog_protocol.quotas import PRODUCER_BYTE_RATE, EntityQuotas, QuotaEntity, QuotaValue
from oncelog_protocol.sasl.user import CredentialRow, ScramUser, UserRow
from support.fence import OpenFence
from support.sasl import CREDENTIALS, SECRET, SHA_256
from support.server import make_context

ALLOWED = AclBinding(TOPIC, LITERAL, "orders", "User:app", "*", WRITE, ALLOW)
OTHER = replace(ALLOWED, name="payments")

APP = UserRow.of(ScramUser("app", 3, (CREDENTIALS[SHA_256],)))


class Told:
    def __init__(self) -> None:
        self.fence = OpenFence()
        self.fence.registered(5)
        self.authorizer = AclAuthorizer()
        self.users = Users(b"own")
        self.quotas = KnownQuotas()
        self.handler = UpdateSecurityHandler(self.fence, self.authorizer, self.users, self.quotas)

    async def __call__(
        self,
        base: int,
        version: int,
        *acls: PatternAcls,
        first: bool = True,
        last: bool = True,
        epoch: int = 1,
        users: Sequence[UserRow] = (),
        secret: bytes = b"",
        quotas: Sequence[EntityQuotas] = (),
    ) -> tuple[int, bool]:
        listed = (list(acls), first, last, list(users), secret, list(quotas))
        order = UpdateSecurityRequest(1, epoch, 5, base, version, *listed)
        sent = schema.decode(UpdateSecurityRequest, schema.encode(order, 0), 0)
        response = await self.handler.handle_async(make_context(), sent)
        assert response.error_code == 0
        return response.version, response.wants_full

    @property
    def entries(self) -> list[AclBinding] | None:
        state = self.authorizer.state
        return None if state is None else list(state)


def acls(entry: AclBinding, *entries: AclBinding) -> PatternAcls:
    return PatternAcls(*entry.pattern, list(entries))


async def test_all_that_there_is_then_what_has_changed() -> None:
    told = Told()
    assert await told(FULL, 3, acls(ALLOWED, ALLOWED), acls(OTHER, OTHER)) == (3, False)
    assert told.entries == [ALLOWED, OTHER]
    denied = replace(ALLOWED, permission=DENY)
    assert await told(3, 6, acls(ALLOWED, ALLOWED, denied), acls(OTHER)) == (6, False)
    assert told.entries == [ALLOWED, denied]


async def test_a_cluster_without_acls_has_a_version_too() -> None:
    told = Told()
    assert await told(FULL, 0) == (0, False)
    assert told.entries == []


async def test_slices_count_when_the_last_has_come() -> None:
    told = Told()
    assert await told(FULL, 2, acls(ALLOWED, ALLOWED), last=False) == (-1, False)
    assert told.entries is None
    assert await told(FULL, 2, acls(OTHER, OTHER), first=False) == (2, False)
    assert told.entries == [ALLOWED, OTHER]


async def test_a_description_that_begins_again_forgets_what_has_come() -> None:
    told = Told()
    await told(FULL, 2, acls(ALLOWED, ALLOWED), last=False)
    await told(FULL, 3, last=False)
    await told(FULL, 3, acls(OTHER, OTHER), first=False)
    assert told.entries == [OTHER]


async def test_a_slice_without_those_before_it_is_refused() -> None:
    told = Told()
    with pytest.raises(InvalidRequestError, match="without those before it"):
        await told(FULL, 2, first=False)
    await told(FULL, 2, acls(ALLOWED, ALLOWED), last=False)
    for version, epoch in ((3, 1), (2, 2)):
        with pytest.raises(InvalidRequestError, match="without those before it"):
            await told(FULL, version, first=False, epoch=epoch)
    assert told.entries is None


async def test_a_change_to_another_version_is_not_taken_and_all_is_asked_for() -> None:
    told = Told()
    assert await told(0, 1, acls(ALLOWED, ALLOWED)) == (-1, True)
    await told(FULL, 4, acls(OTHER, OTHER))
    assert await told(5, 6, acls(ALLOWED, ALLOWED)) == (4, True)
    assert told.entries == [OTHER]


@pytest.mark.hostile(40)
async def test_an_older_version_is_ignored() -> None:
    told = Told()
    await told(FULL, 4, acls(OTHER, OTHER))
    assert await told(FULL, 3, acls(ALLOWED, ALLOWED)) == (4, False)
    assert await told(2, 3, acls(ALLOWED, ALLOWED)) == (4, False)
    assert told.entries == [OTHER]


@pytest.mark.hostile(39)
async def test_a_deposed_controller_and_an_earlier_life_are_not_obeyed() -> None:
    told = Told()
    await told(FULL, 4, acls(OTHER, OTHER), epoch=2)
    with pytest.raises(StaleControllerEpochError):
        await told(FULL, 5, epoch=1)
    told.fence.registered(6)
    with pytest.raises(StaleBrokerEpochError):
        await told(FULL, 5, epoch=2)
    assert told.entries == [OTHER]


async def test_an_acl_that_cannot_be_is_refused() -> None:
    told = Told()
    with pytest.raises(InvalidRequestError, match="'nowhere' is no host"):
        await told(FULL, 1, acls(ALLOWED, replace(ALLOWED, host="nowhere")))
    assert told.entries is None


async def test_users_and_the_secret_come_the_same_way() -> None:
    told = Told()
    other = replace(APP, name="other")
    assert await told(FULL, 4, users=[APP], secret=SECRET, last=False) == (-1, False)
    assert told.users.look_up(SHA_256, "app") is None
    assert await told(FULL, 4, users=[other], secret=SECRET, first=False) == (4, False)
    for name in ("app", "other"):
        assert told.users.look_up(SHA_256, name) == CREDENTIALS[SHA_256]
    assert (told.users.version, told.users.secret) == (4, SECRET)
    assert await told(4, 5, users=[UserRow("app")]) == (5, False)
    assert told.users.look_up(SHA_256, "app") is None
    assert told.users.look_up(SHA_256, "other") is not None
    assert told.users.secret == SECRET


async def test_users_without_acls_and_acls_without_users_are_told_in_full() -> None:
    told = Told()
    told.users.replace(6, SECRET, [])
    assert await told(6, 7, users=[APP]) == (-1, True)
    assert told.users.look_up(SHA_256, "app") is not None, "what is known counts at once"
    assert await told(FULL, 7, users=[APP], secret=SECRET) == (7, False)
    assert told.entries == []


async def test_without_users_there_is_no_secret_to_take() -> None:
    told = Told()
    await told(FULL, 1)
    assert (told.users.version, told.users.secret) == (1, b"own")


async def test_a_user_who_cannot_be_is_refused() -> None:
    told = Told()
    weak = CredentialRow("SCRAM-SHA-256", b"", 1, b"", b"")
    with pytest.raises(UnacceptableCredentialError):
        await told(FULL, 1, acls(ALLOWED, ALLOWED), users=[replace(APP, credentials=[weak])])
    assert told.entries is None


# ---- quotas


def quotas(user: str, *values: float) -> EntityQuotas:
    return EntityQuotas.of(QuotaEntity(user), [(PRODUCER_BYTE_RATE, value) for value in values])


async def test_quotas_come_the_same_way() -> None:
    told = Told()
    assert await told(FULL, 4, quotas=[quotas("app", 7)], last=False) == (-1, False)
    assert told.quotas.values == {}
    assert await told(FULL, 4, quotas=[quotas("other", 0)], first=False) == (4, False)
    assert told.quotas.values == {
        QuotaEntity("app"): {PRODUCER_BYTE_RATE: 7},
        QuotaEntity("other"): {PRODUCER_BYTE_RATE: 0},
    }
    assert await told(4, 6, quotas=[quotas("app"), quotas("other", 0.5)]) == (6, False)
    assert told.quotas.values == {QuotaEntity("other"): {PRODUCER_BYTE_RATE: 0.5}}
    assert await told(8, 9, quotas=[quotas("app", 1)]) == (6, True)


@pytest.mark.parametrize(
    "wrong",
    [
        quotas("app", float("nan")),
        quotas("app", -1),
        EntityQuotas("app", None, "10.0.0.1"),
        EntityQuotas(None, None, "::ffff:10.0.0.1"),
        EntityQuotas("app", None, None, [QuotaValue("connections", 1)]),
    ],
    ids=str,
)
async def test_a_quota_that_cannot_be_is_refused(wrong: EntityQuotas) -> None:
    told = Told()
    with pytest.raises(InvalidRequestError):
        await told(FULL, 1, acls(ALLOWED, ALLOWED), quotas=[wrong])
    assert told.entries is None

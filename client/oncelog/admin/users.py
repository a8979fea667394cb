"""The admin client makes, changes, lists and deletes users, and sends no password.

What the cluster keeps of a password is computed here; it takes some milliseconds a mechanism. A
wish with a password shows it to nobody: not in its ``repr``, and not on the wire.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from oncelog.admin.calls import TIMEOUT_MS, AdminCalls, item_error
from oncelog.admin.results import Results
from oncelog.core.router import Router
from oncelog.errors import ApiError, ConfigurationError
from oncelog_protocol.messages import users as wire
from oncelog_protocol.sasl.credential import (
    ITERATIONS_DEFAULT,
    SALT_BYTES,
    SCRAM_HASHES,
    ScramCredential,
)
from oncelog_protocol.sasl.user import CredentialRow
from oncelog_runtime.clock import WallClock
from oncelog_runtime.entropy import Entropy
from oncelog_runtime.secret_files import SecretFileError, read_secret

MECHANISMS = tuple(str(each) for each in SCRAM_HASHES)
"""A user gets a password for all of these, unless somebody says which."""


@dataclass(frozen=True, slots=True)
class UserAlteration:
    """It says what is to become of a user; make it by one of its methods."""

    name: str
    action: str
    password: str | None = field(default=None, repr=False)
    mechanisms: Sequence[str] = MECHANISMS
    iterations: int = ITERATIONS_DEFAULT

    @classmethod
    def create(
        cls,
        name: str,
        password: str,
        *,
        mechanisms: Sequence[str] = MECHANISMS,
        iterations: int = ITERATIONS_DEFAULT,
    ) -> UserAlteration:
        """Make a user with a password."""
        return cls(name, wire.CREATE, password, mechanisms, iterations)

    @classmethod
    def set_password(
        cls,
        name: str,
        password: str,
        *,
        mechanisms: Sequence[str] = MECHANISMS,
        iterations: int = ITERATIONS_DEFAULT,
    ) -> UserAlteration:
        """Give a user another password; the old one is good for no mechanism any more."""
        return cls(name, wire.SET_PASSWORD, password, mechanisms, iterations)

    @classmethod
    def delete(cls, name: str) -> UserAlteration:
        """Delete a user; its connections end."""
        return cls(name, wire.DELETE)

    @classmethod
    def disable(cls, name: str) -> UserAlteration:
        """Let nobody authenticate as a user, whose connections end; its password is kept."""
        return cls(name, wire.DISABLE)

    @classmethod
    def enable(cls, name: str) -> UserAlteration:
        """Let a disabled user authenticate again."""
        return cls(name, wire.ENABLE)


@dataclass(frozen=True, slots=True)
class UserOutcome:
    """It says what became of one alteration."""

    name: str
    error: ApiError | None


@dataclass(frozen=True, slots=True)
class UserDescription:
    """It is one user, without anything of its passwords."""

    name: str
    error: ApiError | None
    mechanisms: Mapping[str, int] = field(default_factory=dict)
    """The iterations of each mechanism that it has a password for."""
    disabled: bool = False


class UserAdmin(AdminCalls):
    """It is the admin client's part for users."""

    def __init__(self, router: Router, clock: WallClock | None, salts: Entropy) -> None:
        super().__init__(router, clock)
        self._salts = salts

    async def alter_users(
        self,
        alterations: Iterable[UserAlteration],
        *,
        timeout_ms: int = TIMEOUT_MS,
        validate_only: bool = False,
    ) -> Results[UserOutcome]:
        """Make, change, disable and delete users, and return when all brokers know it.

        Passwords do not leave this process. Errors of items: RESOURCE_NOT_FOUND,
        DUPLICATE_RESOURCE, UNACCEPTABLE_CREDENTIAL, POLICY_VIOLATION, CLUSTER_AUTHORIZATION_FAILED
        (super users and brokers are altered by super users only).

        :raises SecurityDisabledError: the cluster has no users.
        :raises ConfigurationError, UnacceptableCredentialError: an alteration cannot be; nothing
            was sent.
        """
        deadline = self._deadline(timeout_ms)
        wishes = await _wishes(alterations, self._salts)
        left_ms = self._left_ms(deadline)
        request = wire.AlterUsersRequest(wishes, validate_only, left_ms)
        response = await self._on_controller(request, left_ms)
        return Results(
            UserOutcome(item.name, item_error(item.error_code, item.error_message, item.name))
            for item in response.results
        )

    async def describe_users(
        self, names: Iterable[str] | None = None, *, timeout_ms: int = TIMEOUT_MS
    ) -> Results[UserDescription]:
        """Return users (default: all) with the mechanisms that they have passwords for.

        Errors of items: RESOURCE_NOT_FOUND.

        :raises SecurityDisabledError: the cluster has no users.
        """
        request = wire.DescribeUsersRequest(None if names is None else list(names))
        response = await self._on_controller(request, timeout_ms)
        return Results(
            UserDescription(
                item.name,
                item_error(item.error_code, item.error_message, item.name),
                {each.mechanism: each.iterations for each in item.mechanisms},
                item.disabled,
            )
            for item in response.users
        )


def password_in(file: str) -> str:
    """Return the password in a file, without the line break at its end.

    :raises ConfigurationError: it cannot be read, is empty, or everybody may read it.
    """
    try:
        return read_secret(file)
    except SecretFileError as error:
        raise ConfigurationError(str(error)) from None


async def _wishes(alterations: Iterable[UserAlteration], entropy: Entropy) -> list[wire.UserWish]:
    """Return alterations as they are sent. Others of the loop run between two of them.

    :raises ConfigurationError: a mechanism is not SCRAM, or there is none.
    :raises UnacceptableCredentialError: a password, or a number of iterations, is not allowed.
    """
    wishes = []
    for each in alterations:
        wishes.append(wire.UserWish(each.name, each.action, _credentials(each, entropy)))
        await asyncio.sleep(0)
    return wishes


def _credentials(alteration: UserAlteration, entropy: Entropy) -> list[CredentialRow]:
    password = alteration.password
    if password is None:
        return []
    names = dict.fromkeys(alteration.mechanisms)
    if not names or not set(names) <= set(MECHANISMS):
        raise ConfigurationError(
            f"mechanisms={list(names)}: one or more of {', '.join(MECHANISMS)}"
        )
    return [
        CredentialRow.of(
            ScramCredential.make(
                mechanism, password, entropy.token(SALT_BYTES), alteration.iterations
            )
        )
        for mechanism in SCRAM_HASHES
        if mechanism in names
    ]

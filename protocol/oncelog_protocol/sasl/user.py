"""A user has a name and what the cluster keeps of its passwords. Pure.

The name is the same on every listener, and the principal of whoever authenticates as the user is
``User:`` and the name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Self

from oncelog_protocol.errors import UnacceptableCredentialError
from oncelog_protocol.sasl.credential import SALT_BYTES_MAX, Mechanism, ScramCredential
from oncelog_protocol.sasl.gs2 import is_legal_user
from oncelog_protocol.schema import Int32, Int64, MaxLength, Name

Key = Annotated[bytes, MaxLength(SALT_BYTES_MAX)]
"""It is a salt, a key of a credential, or a secret."""


@dataclass(frozen=True, slots=True)
class ScramUser:
    """It is one user, as it was left by the change that has the number ``generation``.

    :raises UnacceptableCredentialError: nobody can have the name, or two credentials are of one
        mechanism.
    """

    name: str
    generation: int
    """It is the version of the cluster's security in which the user was changed last, so it grows
    with each change, and also when a user is deleted and made again."""
    credentials: tuple[ScramCredential, ...]
    """One for each mechanism that the user has, by the mechanism's name."""
    disabled: bool = False
    """A disabled user keeps its passwords, and cannot authenticate."""

    def __post_init__(self) -> None:
        if not is_legal_user(self.name):
            raise UnacceptableCredentialError(
                "a user's name has 1 to 128 of the characters A-Z a-z 0-9 . _ @ + -, "
                f"not {self.name[:140]!r}"
            )
        names = [each.mechanism for each in self.credentials]
        if names != sorted(set(names)):
            raise UnacceptableCredentialError(
                f"user {self.name} has two credentials of one mechanism, or they are out of order"
            )

    @classmethod
    def made_of(
        cls,
        name: str,
        generation: int,
        credentials: Iterable[ScramCredential],
        disabled: bool = False,
    ) -> Self:
        """Return the user that has these credentials, given in any order.

        :raises UnacceptableCredentialError: as the class.
        """
        ordered = sorted(credentials, key=lambda each: each.mechanism)
        return cls(name, generation, tuple(ordered), disabled)

    def credential(self, mechanism: Mechanism) -> ScramCredential | None:
        """Return what is kept for a mechanism, None for nothing."""
        return next((each for each in self.credentials if each.mechanism is mechanism), None)


@dataclass(frozen=True, slots=True)
class CredentialRow:
    """It is a credential as messages carry it; nobody has checked it yet."""

    mechanism: Name
    salt: Key
    iterations: Int32
    stored_key: Key = field(repr=False)
    server_key: Key = field(repr=False)

    @classmethod
    def of(cls, credential: ScramCredential) -> Self:
        """Return a credential as messages carry it."""
        return cls(
            str(credential.mechanism),
            credential.salt,
            credential.iterations,
            credential.stored_key,
            credential.server_key,
        )

    def checked(self) -> ScramCredential:
        """Return the credential.

        :raises UnacceptableCredentialError: the mechanism is not known, or as
            :class:`ScramCredential`.
        """
        try:
            mechanism = Mechanism(self.mechanism)
        except ValueError:
            text = f"{self.mechanism[:40]!r} is no mechanism"
            raise UnacceptableCredentialError(text) from None
        return ScramCredential(
            mechanism, self.salt, self.iterations, self.stored_key, self.server_key
        )


@dataclass(frozen=True, slots=True)
class UserRow:
    """It is a user as messages between brokers carry it; without credentials it is deleted."""

    name: Name
    generation: Int64 = 0
    disabled: bool = False
    credentials: list[CredentialRow] = field(default_factory=list)

    @classmethod
    def of(cls, user: ScramUser) -> Self:
        """Return a user as messages carry it."""
        rows = [CredentialRow.of(each) for each in user.credentials]
        return cls(user.name, user.generation, user.disabled, rows)

    def checked(self) -> ScramUser | None:
        """Return the user, None for one that is deleted.

        :raises UnacceptableCredentialError: there can be no such user.
        """
        credentials = [each.checked() for each in self.credentials]
        user = ScramUser.made_of(self.name, self.generation, credentials, self.disabled)
        return user if credentials else None

"""The users of the cluster are known here, as the controller or the store has told them.

They are a state with a version that only grows, as ACLs are. Whoever follows the connections of
users is told which users have changed: what they were authenticated by may be gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from oncelog_broker.server.safeguards import SAFE, SecuritySafeguards
from oncelog_protocol.sasl.credential import Mechanism, ScramCredential
from oncelog_protocol.sasl.user import ScramUser
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

UNKNOWN_VERSION = -1
SECRET_BYTES = 32
"""A cluster's secret has this length."""

UsersChanged = Callable[[frozenset[str]], None]
"""It is called with the names of users whose passwords have changed, or who were deleted, disabled
or enabled. Users who are new are not among them."""


class Users:
    """It knows users and what is kept of their passwords."""

    def __init__(self, secret: bytes, safeguards: SecuritySafeguards = SAFE) -> None:
        """Make it without users; ``secret`` are bytes that nobody can guess, in use until the
        cluster's secret is known."""
        self._secret = secret
        self._safeguards = safeguards
        self._version = UNKNOWN_VERSION
        self._users: dict[str, ScramUser] = {}
        self._followers: list[UsersChanged] = []

    @property
    def version(self) -> int:
        """Return the version of the users, -1 while none are known."""
        return self._version

    @property
    def secret(self) -> bytes:
        """Return the secret of the cluster, from which names without a user get their salts."""
        return self._secret

    def on_change(self, follower: UsersChanged) -> None:
        """Have ``follower`` called after each change of users that were there before."""
        self._followers.append(follower)

    def look_up(self, mechanism: Mechanism, name: str) -> ScramCredential | None:
        """Return the credential of a user; None for no user, a disabled one, or none of the
        mechanism."""
        user = self._users.get(name)
        return None if user is None or user.disabled else user.credential(mechanism)

    def holds(self, name: str, version: int) -> bool:
        """Return whether what :meth:`look_up` has told of the user at ``version``, or later, still
        holds."""
        user = self._users.get(name)
        return user is not None and not user.disabled and user.generation <= version

    def replace(self, version: int, secret: bytes, users: Iterable[ScramUser]) -> bool:
        """Know these users, and no others, from now on; an empty ``secret`` leaves the present one.

        Return whether they are newer than the present ones; if not, nothing has changed.
        """
        if self._safeguards.leaves_out(version <= self._version):
            return False
        self._secret = secret or self._secret
        self._swap(version, {user.name: user for user in users})
        return True

    def change(self, base: int, version: int, changes: Mapping[str, ScramUser | None]) -> bool:
        """Know from now on the present users with these changes: all that has changed from version
        ``base`` to ``version``; None deletes a user. What changed before the present version is
        listed with what it is by now, so that ``base`` may be older.

        Return whether that could be done, or was not needed since ``version`` is not newer; if not,
        all users are to be asked for.
        """
        if self._safeguards.leaves_out(version <= self._version):
            return True
        if self._version == UNKNOWN_VERSION or base > self._version:
            return False
        changed = {**self._users, **changes}
        users = {name: user for name, user in changed.items() if user is not None}
        self._swap(version, users if changes else self._users)
        return True

    def _swap(self, version: int, users: dict[str, ScramUser]) -> None:
        before, self._users, self._version = self._users, users, version
        changed = frozenset(
            name
            for name, user in (() if users is before else before.items())
            if name not in users or users[name].generation != user.generation
        )
        if users is not before:
            logger.info("users_changed", version=version, users=len(users), changed=len(changed))
        if changed:
            for follower in self._followers:
                follower(changed)

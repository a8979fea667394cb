"""DescribeUsers and AlterUsers are served here. Pure.

Rules
-----
* A wish that is refused takes no other with it. Wishes of one request are met in their order, and
  written in one multi that sets the version.
* A wish that changes nothing is no error: no version is spent, and no connection ends.
* A change is answered when the brokers have acknowledged it (``acknowledgements``).
* Who may ask was found out by the broker that was asked, since it knows the asker.
"""

from __future__ import annotations

from dataclasses import replace

from oncelog_controller import user_nodes
from oncelog_controller.acknowledgements import SecurityAcknowledgements
from oncelog_controller.core import Core
from oncelog_controller.events import RequestReceived
from oncelog_controller.security import ClusterSecurity
from oncelog_controller.security_requests import answer_change, known_security
from oncelog_protocol import limits
from oncelog_protocol.errors import (
    NO_ERROR,
    ApiError,
    DuplicateResourceError,
    InvalidRequestError,
    PolicyViolationError,
    ResourceNotFoundError,
    UnacceptableCredentialError,
)
from oncelog_protocol.messages.users import (
    CREATE,
    DELETE,
    DISABLE,
    ENABLE,
    SET_PASSWORD,
    AlteredUser,
    AlterUsersRequest,
    AlterUsersResponse,
    DescribedMechanism,
    DescribedUser,
    DescribeUsersRequest,
    DescribeUsersResponse,
    UserWish,
)
from oncelog_protocol.sasl.user import ScramUser
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

ACTIONS = (CREATE, SET_PASSWORD, DELETE, DISABLE, ENABLE)

Changes = dict[str, ScramUser | None]
"""They are users as they are to be; None: deleted."""


class UserRequests:
    """It serves what is asked of users."""

    def __init__(self, core: Core, acknowledgements: SecurityAcknowledgements) -> None:
        self._core = core
        self._acknowledgements = acknowledgements

    def describe(self, event: RequestReceived, request: DescribeUsersRequest) -> None:
        """Answer with the users, without what is kept of their passwords."""
        security = self._security(event, len(request.names or ()))
        if security is None:
            return
        names = sorted(security.users) if request.names is None else request.names
        users = [_described(security, name) for name in names]
        response = DescribeUsersResponse(NO_ERROR, None, users, security.version)
        self._core.reply(event.request_id, response)

    def alter(self, event: RequestReceived, request: AlterUsersRequest) -> None:
        """Change users."""
        security = self._security(event, len(request.wishes))
        if security is None:
            return
        changes: Changes = {}
        results = []
        for wish in request.wishes:
            try:
                grant(security, changes, wish)
                results.append(AlteredUser(wish.name))
            except ApiError as error:
                results.append(AlteredUser(wish.name, error.code, str(error)))
        response = AlterUsersResponse(NO_ERROR, results)
        changes = {
            name: user for name, user in changes.items() if user != _present(security, {}, name)
        }
        if changes and not request.validate_only:

            def applied() -> None:
                security.take_users(changes)
                self._core.order_security({}, changes, {})
                logger.info("users_written", version=security.version, users=sorted(changes))

            self._core.write(user_nodes.write_users(security, changes), applied)
        answer_change(self._core, self._acknowledgements, event, request, response)

    def _security(self, event: RequestReceived, count: int) -> ClusterSecurity | None:
        """Return what is known, or refuse the request."""
        most = limits.USERS_OF_REQUEST_MAX
        return known_security(self._core, event, count=count, most=most, items="users")


def _described(security: ClusterSecurity, name: str) -> DescribedUser:
    stored = security.users.get(name)
    if stored is None:
        error = _nobody(name)
        return DescribedUser(name, error.code, str(error))
    mechanisms = [
        DescribedMechanism(str(each.mechanism), each.iterations) for each in stored.user.credentials
    ]
    return DescribedUser(name, mechanisms=mechanisms, disabled=stored.user.disabled)


def grant(security: ClusterSecurity, changes: Changes, wish: UserWish) -> None:
    """Note what a wish changes.

    :raises ApiError: it is refused.
    """
    generation = security.version + 1
    present = _present(security, changes, wish.name)
    if wish.action not in ACTIONS:
        raise InvalidRequestError(f"{wish.action[:40]!r} is none of {', '.join(ACTIONS)}")
    if wish.action in (CREATE, SET_PASSWORD):
        wanted = _with_password(present, wish, generation)
        if present is None:
            _check_room(security, changes)
        changes[wish.name] = wanted
    elif present is None:
        raise _nobody(wish.name)
    elif wish.credentials:
        raise InvalidRequestError(f"{wish.action} takes no credential")
    elif wish.action == DELETE:
        changes[wish.name] = None
    elif present.disabled != (wish.action == DISABLE):
        changes[wish.name] = replace(
            present, generation=generation, disabled=wish.action == DISABLE
        )


def _with_password(present: ScramUser | None, wish: UserWish, generation: int) -> ScramUser:
    credentials = [each.checked() for each in wish.credentials]
    if not credentials:
        raise UnacceptableCredentialError(f"{wish.action} needs a credential")
    wanted = ScramUser.made_of(wish.name, generation, credentials)
    if present is None:
        if wish.action == SET_PASSWORD:
            raise _nobody(wish.name)
        return wanted
    if present.credentials == wanted.credentials:
        return present
    if wish.action == CREATE:
        raise DuplicateResourceError(f"there is a user {wish.name} already")
    return replace(wanted, disabled=present.disabled)


def _present(security: ClusterSecurity, changes: Changes, name: str) -> ScramUser | None:
    if name in changes:
        return changes[name]
    stored = security.users.get(name)
    return None if stored is None else stored.user


def _check_room(security: ClusterSecurity, changes: Changes) -> None:
    known = security.users.keys()
    gone = sum(user is None and name in known for name, user in changes.items())
    new = sum(user is not None and name not in known for name, user in changes.items())
    if len(known) - gone + new >= limits.USERS_MAX:
        raise PolicyViolationError(f"the cluster has {limits.USERS_MAX} users, the most it may")


def _nobody(name: str) -> ResourceNotFoundError:
    return ResourceNotFoundError(f"there is no user {name[:140]!r}")

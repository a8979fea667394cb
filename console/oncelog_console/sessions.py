"""Sessions begin for whoever signs in; their credentials are only in the memory of this process.

Without a token and without users of the cluster, whoever reaches the console has a session without
signing in: it tells whose plan a plan is. Rules: an id has 256 bits of chance; a session ends
12 hours after its last use, with the process, or when there are too many and nobody has used it for
the longest time. What a user of the cluster may see is asked for as that user.
"""

from __future__ import annotations

import asyncio
import hmac
from collections import OrderedDict
from collections.abc import Awaitable
from dataclasses import dataclass, field

from oncelog import Admin
from oncelog.errors import ConfigurationError
from oncelog_console.clients import ClusterClients
from oncelog_console.snapshot import Visible
from oncelog_protocol.errors import ClusterAuthorizationFailedError, OncelogError
from oncelog_runtime.clock import WallClock
from oncelog_runtime.entropy import Entropy
from oncelog_runtime.structured_logging import get_logger
from oncelog_runtime.tasks import Tasks

logger = get_logger(__name__)

COOKIE = "oncelog_session"
ID_BYTES = 32
SESSIONS_MAX = 1_000
USERS_MAX = 50
"""So many sessions have clients of their own."""
IDLE_MS = 12 * 3_600_000
VISIBLE_S = 30.0
"""After so long a user's names are asked for anew."""
FAILURES_PAUSE_S = 1.0
"""Whoever failed to sign in waits so long for the answer, and others with them."""


class SignInError(Exception):
    """Somebody is not let in; the text says why."""


@dataclass(slots=True)
class Session:
    """One browser has this session."""

    session_id: str
    name: str
    """It is the name for people and for the log."""
    admin: Admin
    """It asks as this user."""
    clients: ClusterClients
    own_user: bool = False
    """Whether it is a user of the cluster, and not whoever the console itself is."""
    used_ms: int = 0
    visible: Visible | None = None
    """It may see this; None: everything that the console sees."""
    tasks: Tasks = field(default_factory=lambda: Tasks("session"))


class Sessions:
    """They are all sessions of one console. ``close`` ends them.

    :param admin: the console's own, started.
    :param token: who signs in without a user shows it; None: nobody has to.
    """

    def __init__(
        self,
        clients: ClusterClients,
        admin: Admin,
        token: str | None,
        clock: WallClock,
        entropy: Entropy,
    ) -> None:
        self._clients = clients
        self._admin = admin
        self._token = token
        self._clock = clock
        self._entropy = entropy
        self._known: OrderedDict[str, Session] = OrderedDict()
        self._one_time: dict[str, None] = {}
        self._gate = asyncio.Lock()
        self._ending = Tasks("sessions")

    @property
    def users_sign_in(self) -> bool:
        """Return whether one signs in as a user of the cluster."""
        return self._clients.asks_for_user

    @property
    def open(self) -> bool:
        """Return whether nobody has to sign in."""
        return self._token is None and not self.users_sign_in

    def find(self, session_id: str) -> Session | None:
        """Return the session of this id, which counts as used now; None: there is none any more."""
        session = self._known.get(session_id)
        if session is None:
            return None
        now_ms = self._clock.now_ms()
        if now_ms - session.used_ms > IDLE_MS:
            self._forget(session)
            return None
        session.used_ms = now_ms
        self._known.move_to_end(session_id)
        return session

    def begin(self, name: str = "anybody") -> Session:
        """Begin a session that asks as the console itself."""
        return self._add(Session(self._new_id(), name, self._admin, self._clients))

    def one_time_code(self) -> str:
        """Return a code that signs one browser in, once."""
        code = self._new_id()
        self._one_time[code] = None
        return code

    def by_code(self, code: str) -> Session:
        """Begin a session for whoever has a code that nobody has used.

        :raises SignInError: the code was used, or is none.
        """
        if code not in self._one_time:
            raise SignInError("this link was used already; sign in, or start the console anew")
        del self._one_time[code]
        return self.begin("whoever started the console")

    async def by_token(self, token: str) -> Session:
        """Begin a session for whoever has the token.

        :raises SignInError: it is another token, or there is none.
        """
        async with self._gate:
            if self._token is None or not hmac.compare_digest(token.encode(), self._token.encode()):
                await asyncio.sleep(FAILURES_PAUSE_S)
                raise SignInError("this is not the token of this console")
        return self.begin("who has the token")

    async def by_password(self, username: str, password: str) -> Session:
        """Begin a session for a user of the cluster, who is asked for by name.

        :raises SignInError: brokers do not take the password, or do not answer.
        """
        if not self.users_sign_in or not username or not password:
            raise SignInError("a user has a name and a password")
        async with self._gate:
            if sum(each.own_user for each in self._known.values()) >= USERS_MAX:
                raise SignInError(f"{USERS_MAX} users are signed in; one of them has to sign out")
            try:
                clients = self._clients.of_user(username, password)
                admin = clients.admin()
                await admin.start()
            except (OncelogError, ConfigurationError) as error:
                await asyncio.sleep(FAILURES_PAUSE_S)
                raise SignInError(str(error)) from error
        session = Session(self._new_id(), username, admin, clients, own_user=True)
        session.visible = await visible_to(admin)
        session.tasks.spawn("visible", self._look_again(session))
        return self._add(session)

    async def end(self, session: Session) -> None:
        """End a session."""
        self._known.pop(session.session_id, None)
        await self._close_clients(session)

    async def close(self) -> None:
        """End all sessions."""
        for session in list(self._known.values()):
            await self.end(session)
        await self._ending.close()

    def _new_id(self) -> str:
        return self._entropy.token(ID_BYTES).hex()

    def _add(self, session: Session) -> Session:
        session.used_ms = self._clock.now_ms()
        self._known[session.session_id] = session
        while len(self._known) > SESSIONS_MAX:
            self._forget(next(iter(self._known.values())))
        return session

    def _forget(self, session: Session) -> None:
        del self._known[session.session_id]
        if session.own_user:
            self._ending.spawn("end", self._close_clients(session))

    async def _close_clients(self, session: Session) -> None:
        if session.own_user:
            await session.admin.close()
            await session.tasks.close()

    async def _look_again(self, session: Session) -> None:
        while True:
            await asyncio.sleep(VISIBLE_S)
            session.visible = await visible_to(session.admin)


async def visible_to(admin: Admin) -> Visible:
    """Ask brokers what the user of an admin client may see; what they refuse is not visible."""
    topics = await _names(admin.list_topics(include_internal=True))
    groups = await _names(_group_ids(admin))
    ids = await _names(_transactional_ids(admin))
    return Visible(topics, groups, ids, await _sees_cluster(admin))


async def _sees_cluster(admin: Admin) -> bool:
    try:
        directories = await admin.describe_log_dirs(topics=[])
    except OncelogError:
        return False
    return not any(isinstance(item.error, ClusterAuthorizationFailedError) for item in directories)


async def _group_ids(admin: Admin) -> list[str]:
    return [each.group_id for each in await admin.list_groups()]


async def _transactional_ids(admin: Admin) -> list[str]:
    return [each.transactional_id for each in await admin.list_transactions()]


async def _names(asked: Awaitable[list[str]]) -> frozenset[str]:
    try:
        return frozenset(await asked)
    except OncelogError:
        return frozenset()

"""The console makes its clients of the cluster here, for itself and for who has signed in.

Rule: a kind of client is loaded when the first one is made. The program of a search makes consumers
alone, and whoever waits for its first hit does not wait for what it never uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import oncelog

if TYPE_CHECKING:
    from oncelog import Admin, Consumer, Producer, Security

CLIENT_ID = "oncelog-console"


@dataclass(frozen=True, slots=True)
class ClusterClients:
    """They reach one cluster, as one user.

    :param servers: addresses of brokers, ``host:port,host:port``.
    :param security: how connections are secured, and who the user is; None: they are plain.
    :param options: options of any client, by name; each client takes those that it has.
    """

    servers: str
    security: Security | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def asks_for_user(self) -> bool:
        """Return whether this cluster knows its users by name and password."""
        return self.security is not None and self.security.username is not None

    def of_user(self, username: str, password: str) -> ClusterClients:
        """Return the clients of another user of the same cluster.

        :raises ConfigurationError: a name or password that cannot be.
        """
        assert self.security is not None
        other = replace(self.security, username=username, password=password, password_file=None)
        return replace(self, security=other)

    def admin(self) -> Admin:
        """Make an admin client; ``async with`` starts it."""
        return oncelog.Admin(self.servers, **self._settings(oncelog.Admin))

    def producer(self, **own: Any) -> Producer:
        """Make a producer; ``own`` are options beside those that all clients have."""
        return oncelog.Producer(self.servers, **self._settings(oncelog.Producer, **own))

    def consumer(self, *topics: str, **own: Any) -> Consumer:
        """Make a consumer; ``own`` are options beside those that all clients have."""
        settings = self._settings(oncelog.Consumer, **own)
        return oncelog.Consumer(*topics, bootstrap_servers=self.servers, **settings)

    def _settings(self, client: type, **own: Any) -> dict[str, Any]:
        known = client.__init__.__annotations__  # type: ignore[misc]
        taken = {name: value for name, value in self.options.items() if name in known}
        return {"client_id": CLIENT_ID, **taken, "security": self.security, **own}

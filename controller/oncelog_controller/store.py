"""The metadata store is a port: it is what the controller and brokers need of ZooKeeper.

Pure declarations; ``zookeeper.py`` fulfils them over kazoo, the tests over memory. Rules of every
version, checked by one contract suite:

* Paths are absolute below the chroot and start with '/'. ``data`` is bytes, never None.
* Calls, watches and session callbacks all happen on the event loop that called ``start``.
* A watch fires once. It is armed by the same read that returns the value, so that nothing can
  change between reading and arming. Watches die with the session; after a reconnect within the
  session they still stand, and what changed meanwhile fires them.
* While disconnected, calls fail with :class:`StoreDisconnectedError`; a write that fails so may
  have been applied. *Disconnected* is not *expired*: ephemeral nodes live until expiry.
* ``multi`` is all or nothing. When it fails, it raises the error of the first operation that
  failed, with ``op_index`` set, and nothing was applied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

from oncelog_protocol.errors import OncelogError

ANY_VERSION = -1

REQUEST_BYTES_MAX = 1_000_000
"""One call, a whole multi included, may carry so many bytes: ZooKeeper closes the connection of
whoever sends more than ``jute.maxbuffer`` (1,048,575 bytes, framing and access lists included)."""

OP_OVERHEAD_BYTES = 64
"""Framing, version, flags and access list of one operation, rounded up."""


class StoreError(OncelogError):
    """This is the base of what the store raises. ``maybe_applied``: the write may have taken
    effect."""

    maybe_applied: bool = False

    def __init__(self, path: str = "", *, op_index: int | None = None) -> None:
        super().__init__(f"{type(self).__name__}: {path}" if path else type(self).__name__)
        self.path = path
        self.op_index = op_index
        """Which operation of a multi failed; None outside a multi."""


class NodeExistsError(StoreError):
    """Create: the path exists already."""


class NoNodeError(StoreError):
    """The path, or for create its parent, does not exist."""


class BadVersionError(StoreError):
    """Set, delete or check: the version is not the expected one."""


class NotEmptyError(StoreError):
    """Delete: the node has children."""


class AccessDeniedError(StoreError):
    """The node is not for the identity of this session, or one is needed and there is none."""


class IdentityRejectedError(AccessDeniedError):
    """The store wants nothing to do with the identity of this session: not as whom it comes, or not
    by this way of saying it."""


class SessionExpiredError(StoreError):
    """The session is over; its ephemeral nodes are gone. Only ``restart_session`` helps."""


class StoreDisconnectedError(StoreError):
    """No contact with the store, or it was lost before the answer came; the outcome is unknown."""

    maybe_applied = True


class RequestTooLargeError(StoreError):
    """One call had more than ``REQUEST_BYTES_MAX``; nothing was sent."""


class SessionState(Enum):
    """It says where the session stands."""

    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    EXPIRED = "expired"


class WatchKind(Enum):
    """It says what a watch saw."""

    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"
    CHILDREN = "children"


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """A one-shot notice: something happened at ``path``; read again to know what."""

    kind: WatchKind
    path: str


@dataclass(frozen=True, slots=True)
class NodeStat:
    """It holds what the store knows of a node. ``version`` grows by one with each set, ``czxid`` is
    unique to one creation and grows over the whole store; ``ephemeral_owner`` is 0 for a persistent
    node.
    """

    version: int
    czxid: int
    mzxid: int = 0
    ephemeral_owner: int = 0
    children_version: int = 0
    children_count: int = 0


@dataclass(frozen=True, slots=True)
class Create:
    """Create ``path``; its parent must exist."""

    path: str
    data: bytes
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    """Replace the data of ``path`` if its version is ``version``."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove ``path``, which must have no children, if its version is ``version``."""

    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class CheckVersion:
    """Do nothing, but fail the multi unless ``path`` has ``version``."""

    path: str
    version: int


Op: TypeAlias = Create | SetData | Delete | CheckVersion


def check_request_size(ops: Sequence[Op]) -> None:
    """Refuse a write, or a multi, that the store would break the connection for.

    :raises RequestTooLargeError:
    """
    size_bytes = 0
    for op in ops:
        size_bytes += OP_OVERHEAD_BYTES + len(op.path.encode())
        if isinstance(op, Create | SetData):
            size_bytes += len(op.data)
    if size_bytes > REQUEST_BYTES_MAX:
        raise RequestTooLargeError(f"{ops[0].path}: {size_bytes} bytes in {len(ops)} operations")


OpResult: TypeAlias = NodeStat | None
"""``NodeStat`` after SetData and, where the store tells (see ``multi``), Create; None else."""

Watch: TypeAlias = Callable[[WatchEvent], None]
SessionListener: TypeAlias = Callable[[SessionState], None]


class MetadataStore(Protocol):
    """It is a small tree of versioned nodes with sessions, watches and atomic multi-operations."""

    state: SessionState
    session_id: int | None
    on_session: list[SessionListener]
    """These listeners are called on the loop at each change of ``state``."""

    async def start(self) -> None:
        """Connect and open a session.

        :raises StoreDisconnectedError: nothing answers within the connect deadline.
        :raises AccessDeniedError: the store rejects the identity, or the root is not for it.
        """

    async def close(self) -> None:
        """End the session: its ephemeral nodes go at once."""

    async def restart_session(self) -> None:
        """Open a new session after expiry; returns when connected, and retries until then."""

    async def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, make_parents: bool = False
    ) -> NodeStat:
        """Create a node. :raises NodeExistsError, NoNodeError (parent missing)."""

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, NodeStat]:
        """Return data and stat. The watch fires on change and deletion. :raises NoNodeError: (no
        watch is then set)."""

    async def exists(self, path: str, watch: Watch | None = None) -> NodeStat | None:
        """Return the stat, or None. The watch fires on creation, change and deletion."""

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Return the names of children, sorted. The watch fires when a child comes or goes, and on
        deletion of ``path``. :raises NoNodeError:"""

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> NodeStat:
        """Replace data. :raises NoNodeError, BadVersionError:"""

    async def delete(
        self, path: str, version: int = ANY_VERSION, *, recursive: bool = False
    ) -> None:
        """Remove a node. :raises NoNodeError, BadVersionError, NotEmptyError:"""

    async def multi(self, ops: list[Op]) -> list[OpResult]:
        """Apply all or none, in order.

        Results: Create gives a NodeStat with version 0 whose ``czxid`` may be 0 where the store's
        multi does not tell it; SetData gives the new stat; Delete and CheckVersion give None.
        """

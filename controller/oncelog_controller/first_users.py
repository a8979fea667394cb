"""The first users of a cluster are made in the store, before its first broker starts.

They are made as the controller would make them, by the same functions, and it finds them there.
"""

from __future__ import annotations

from oncelog_controller import user_nodes, znodes
from oncelog_controller.loader import load_security
from oncelog_controller.security import ClusterSecurity
from oncelog_controller.store import MetadataStore, NoNodeError
from oncelog_controller.user_requests import Changes, grant
from oncelog_protocol.errors import PolicyViolationError
from oncelog_protocol.messages.users import UserWish


async def add_user(store: MetadataStore, wish: UserWish, secret: bytes) -> None:
    """Make a user, and before it what all users need: the version, and the cluster's secret.

    :param secret: bytes that nobody can guess; the cluster's are these if it has none yet.
    :raises PolicyViolationError: a broker of the cluster runs, whose controller writes users.
    :raises DuplicateResourceError: there is such a user.
    :raises UnacceptableCredentialError: nobody can have the name.
    :raises StoreError: nothing was written, or, without an answer, perhaps.
    """
    # A wish that can be met in no cluster leaves no trace in this one.
    grant(ClusterSecurity(), {}, wish)
    await _refuse_beside_brokers(store)
    security = await load_security(store, secret)
    changes: Changes = {}
    grant(security, changes, wish)
    await store.multi(user_nodes.write_users(security, changes))


async def _refuse_beside_brokers(store: MetadataStore) -> None:
    try:
        running = await store.children(znodes.BROKER_IDS)
    except NoNodeError:
        return
    if running:
        raise PolicyViolationError(
            f"the brokers {', '.join(running)} of this cluster run, and only their controller "
            "writes users. Remedy: 'oncelog users add', or stop all brokers first"
        )

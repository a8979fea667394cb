"""This module changes the access lists of a tree that is there, while brokers run.

A broker with an identity reads nodes of both kinds, so a cluster goes over node by node. Parents
are changed before what is below them: from then on nobody else makes or deletes nodes there. A walk
that was cut off is done again, and leaves alone what was changed already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from oncelog_controller import security_nodes, znodes
from oncelog_controller.store import NoNodeError
from oncelog_controller.zookeeper import ZooKeeperStore
from oncelog_controller.zookeeper_access import CREATOR, EVERYBODY, AccessList

NODES_AT_ONCE = 256
OF_ZOOKEEPER = "zookeeper"
"""ZooKeeper keeps its own nodes below this one of its root."""
OURS = frozenset(
    path.split("/")[1]
    for path in (
        *znodes.BASE_PATHS,
        znodes.CONTROLLER,
        znodes.CONTROLLER_EPOCH,
        security_nodes.VERSION,
    )
)
"""A cluster has these nodes in its root."""


@dataclass(frozen=True, slots=True)
class Walked:
    """It is what became of a tree."""

    changed: int
    """So many nodes have another access list than before."""
    strangers: tuple[str, ...]
    """Others have these nodes beside the cluster's, so their common root was left as it is."""


async def close_tree(store: ZooKeeperStore) -> Walked:
    """Leave every node to the identity of this session alone.

    :raises AccessDeniedError: the session has no identity, or a node is another one's.
    :raises StoreError: the store was lost; what was changed stays changed.
    """
    return await _walk(store, CREATOR)


async def open_tree(store: ZooKeeperStore) -> Walked:
    """Give every node to everybody.

    :raises AccessDeniedError: a node is for another identity than that of this session.
    :raises StoreError: the store was lost; what was changed stays changed.
    """
    return await _walk(store, EVERYBODY)


async def _walk(store: ZooKeeperStore, wanted: AccessList) -> Walked:
    names = await store.children("/")
    strangers: tuple[str, ...] = ()
    if not store.chroot:
        strangers = tuple(f"/{name}" for name in names if name not in (*OURS, OF_ZOOKEEPER))
        names = [name for name in names if name in OURS]
    paths = [f"/{name}" for name in names]
    first = "/" if not strangers else paths.pop(0) if paths else None
    if first is None:
        return Walked(0, strangers)
    # Only ZooKeeper knows whom "the creator" is: the first node shows how all are to be.
    before = await store.access_list(first)
    await store.set_access_list(first, wanted)
    as_stored = await store.access_list(first)
    changed = int(before != as_stored)
    if first != "/":
        paths += await _children(store, first)
    while paths:
        below: list[str] = []
        for start in range(0, len(paths), NODES_AT_ONCE):
            several = paths[start : start + NODES_AT_ONCE]
            done = await asyncio.gather(*(_change(store, path, as_stored) for path in several))
            changed += sum(was_other for was_other, _ in done)
            below += [child for _, children in done for child in children]
        paths = below
    return Walked(changed, strangers)


async def _change(
    store: ZooKeeperStore, path: str, wanted: AccessList
) -> tuple[bool, Sequence[str]]:
    """Return whether the node had another access list, and what is below it."""
    try:
        was_other = await store.access_list(path) != wanted
        if was_other:
            await store.set_access_list(path, wanted)
        return was_other, await _children(store, path)
    except NoNodeError:
        return False, ()


async def _children(store: ZooKeeperStore, path: str) -> list[str]:
    return [f"{path}/{name}" for name in await store.children(path)]

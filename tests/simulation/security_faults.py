"""Faults of secured runs change who may do what, and keep brokers from learning of it; imported to
register. They are drawn in secured runs only, from a stream of their own."""

from __future__ import annotations

import asyncio

from simulation.nemesis import Nemesis, security_fault
from simulation.security_workload import SecurityWorkload


def workload_of(self: Nemesis) -> SecurityWorkload | None:
    """Return the warden and the subjects of a secured run."""
    return self.security if self.security is not None and self.security.users else None


def a_right(self: Nemesis, workload: SecurityWorkload, allowed: bool) -> tuple[str, str] | None:
    """Return a user and a right, which the user has or has not."""
    found = [each for each, granted in workload.allowed.items() if granted == allowed]
    return self.chance.choice(found) if found else None


@security_fault
async def revoke(self: Nemesis) -> None:
    """A right is taken: its ACL is deleted, or denied by another. Later it is given back."""
    workload = workload_of(self)
    chosen = None if workload is None else a_right(self, workload, True)
    if workload is None or chosen is None:
        return
    await workload.change_right(*chosen, granted=False, by_deny=self.chance.random() < 0.3)
    await self._wait(0.5, 7.0)
    await workload.change_right(*chosen, granted=True)


@security_fault
async def grant(self: Nemesis) -> None:
    """A right is given to somebody who lacks it, mostly to who never had any; often it is taken
    again."""
    workload = workload_of(self)
    chosen = None if workload is None else a_right(self, workload, False)
    if workload is None or chosen is None:
        return
    await workload.change_right(*chosen, granted=True)
    await self._wait(0.5, 5.0)
    if self.chance.random() < 0.7:
        await workload.change_right(*chosen, granted=False)


@security_fault
async def delete_user(self: Nemesis) -> None:
    """A user is gone, with its ACLs left as they are; later there is one of the same name."""
    workload = workload_of(self)
    if workload is None:
        return
    user = self.chance.choice(list(workload.users))
    await workload.delete_user(user)
    await self._wait(0.2, 4.0)
    await workload.make_user(user)


@security_fault
async def change_password(self: Nemesis) -> None:
    """A user has another password; whoever goes on with the old one is nobody any more."""
    workload = workload_of(self)
    if workload is not None:
        await workload.change_password(self.chance.choice(list(workload.users)))
        await self._wait(0.0, 2.0)


@security_fault
async def isolate_from_security(self: Nemesis) -> None:
    """A broker is cut off from the controller, mostly from the store and all other brokers too,
    while clients reach it; meanwhile a right is taken."""
    workload = workload_of(self)
    if workload is None:
        return
    cluster = self.cluster
    broker_id = self._any()
    host, others = cluster.host(broker_id), self._hosts(self._others(broker_id))
    lost = self.chance.random()
    controller = self._controller()
    if lost < 0.3 and controller not in (None, broker_id):
        others = [cluster.host(controller)]
    if lost < 0.8:
        cluster.cut_from_zookeeper(broker_id)
    self.network.part([host], others)
    changing: asyncio.Task[None] | None = None
    chosen = a_right(self, workload, True)
    try:
        await self._wait(0.0, 1.0)
        if chosen is not None:  # beside the fault, which must end even if nobody can acknowledge it
            change = workload.change_right(*chosen, granted=False)
            changing = cluster.loop.create_task(change, name="revoke")
        await self._wait(0.5, 3.0 * workload.lost_touch_s)
    except asyncio.CancelledError:
        if changing is not None:  # its turn must not come when all is given back
            changing.cancel()
        raise
    finally:
        for other in others:
            self.network.release(host, other)
            self.network.release(other, host)
        cluster.join_zookeeper(broker_id)
    await self._wait(0.0, 2.0)
    if chosen is not None and changing is not None:
        await changing
        await workload.change_right(*chosen, granted=True)

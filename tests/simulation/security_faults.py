"""Faults of secured runs change who may do what, and keep brokers from learning of it; imported to
register. They are drawn in secured runs only, from a stream of their own."""

from __future__ import annotations

from simulation.nemesis import Nemesis, security_fault
from simulation.security_workload import SecurityWorkload


def _workload(self: Nemesis) -> SecurityWorkload | None:
    """Return the warden and the subjects of a secured run."""
    return self.security if self.security is not None and self.security.users else None


def _chosen(self: Nemesis, workload: SecurityWorkload, allowed: bool) -> tuple[str, str] | None:
    """Return a user and a right, which the user has or has not."""
    found = [each for each, granted in workload.allowed.items() if granted == allowed]
    return self.chance.choice(found) if found else None


@security_fault
async def revoke(self: Nemesis) -> None:
    """A right is taken: its ACL is deleted, or denied by another. Later it is given back."""
    workload = _workload(self)
    chosen = None if workload is None else _chosen(self, workload, True)
    if workload is None or chosen is None:
        return
    await workload.change_right(*chosen, granted=False, by_deny=self.chance.random() < 0.3)
    await self._wait(0.5, 5.0)
    await workload.change_right(*chosen, granted=True)


@security_fault
async def grant(self: Nemesis) -> None:
    """A right is given to somebody who lacks it, mostly to who never had any; often it is taken
    again."""
    workload = _workload(self)
    chosen = None if workload is None else _chosen(self, workload, False)
    if workload is None or chosen is None:
        return
    await workload.change_right(*chosen, granted=True)
    await self._wait(0.5, 5.0)
    if self.chance.random() < 0.7:
        await workload.change_right(*chosen, granted=False)


@security_fault
async def delete_user(self: Nemesis) -> None:
    """A user is gone, with its ACLs left as they are; later there is one of the same name."""
    workload = _workload(self)
    if workload is None:
        return
    user = self.chance.choice(list(workload.users))
    await workload.delete_user(user)
    await self._wait(0.2, 4.0)
    await workload.make_user(user)


@security_fault
async def change_password(self: Nemesis) -> None:
    """A user has another password; whoever goes on with the old one is nobody any more."""
    workload = _workload(self)
    if workload is not None:
        await workload.change_password(self.chance.choice(list(workload.users)))
        await self._wait(0.0, 2.0)

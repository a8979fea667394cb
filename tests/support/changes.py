"""Changes of the console are planned and carried out here as its forms do it, without pages."""

from __future__ import annotations

import asyncio
import shlex
from dataclasses import replace

from oncelog_console.actions import Author, carried_out, planned
from oncelog_console.changes.change import Desk
from oncelog_console.changes.kinds import KINDS
from oncelog_console.plans import Plan, Plans
from support.console import Browser
from support.shell import Shown, oncelog

__all__ = ["Workshop"]


class Workshop:
    """Somebody plans changes of a console's cluster, and carries them out."""

    def __init__(self, browser: Browser, name: str = "ann", plans: Plans | None = None) -> None:
        console = browser.console
        self.browser = browser
        self.console = console
        self.author = Author(name, name, "127.0.0.1")
        self.plans = plans or Plans(
            console.entropy, asyncio.get_running_loop().time, console.clock.now_ms
        )

    def colleague(self, name: str) -> Workshop:
        """Return another operator at the same console."""
        return Workshop(self.browser, name, self.plans)

    @property
    def desk(self) -> Desk:
        """Return what changes are looked at with, now."""
        console = self.console
        return Desk(
            console.admin,
            console.clients,
            lambda: console.poller.seen,
            console.clock.now_ms(),
            console.browsing,
        )

    async def plan(self, kind: str, **form: str) -> Plan:
        """Plan what a form asks for."""
        return await self.plan_at(self.desk.now_ms, kind, **form)

    async def plan_at(self, now_ms: int, kind: str, **form: str) -> Plan:
        """Plan what a form asks for, at another time by the wall clock."""
        desk = replace(self.desk, now_ms=now_ms)
        return await planned(self.plans, self.author, KINDS[kind], form.items(), desk)

    async def carry_out(self, plan: Plan, typed: str | None = None) -> Plan:
        """Carry a plan out, with its name typed as it should be."""
        name = plan.change.typed if typed is None else typed
        return await carried_out(self.plans, self.author, plan.token, name, self.desk)

    async def arrives(self, plan: Plan, timeout_s: float = 20.0) -> None:
        """Wait until the cluster shows what was changed."""
        async with asyncio.timeout(timeout_s):
            while not await plan.change.arrived(self.desk, plan.seen):
                self.console.poller.refresh()
                await asyncio.sleep(0.05)

    async def by_hand(self, plan: Plan, *more: str) -> Shown:
        """Carry out the command line that a plan shows, in a shell."""
        line = plan.change.command(plan.seen)
        servers = self.console.clients.servers
        words = shlex.split(line.text().rpartition("| ")[2])[1:]
        end = words.index("--") if "--" in words else len(words)
        words[end:end] = [*more, "--bootstrap", servers]
        return await oncelog(*words, stdin=line.stdin.encode())

"""Changes are carried out as they were seen, and each is a line of the log, also a refused one."""

from __future__ import annotations

import asyncio
import logging

import pytest

from oncelog import Admin
from oncelog_cli.documents.answer import Answer
from oncelog_console.actions import Author, carried_out, planned
from oncelog_console.browsing import Browsing
from oncelog_console.changes.change import (
    ChangeKind,
    ClusterChange,
    Desk,
    FormError,
    FormField,
    Preview,
    RefusedError,
    Values,
)
from oncelog_console.clients import ClusterClients
from oncelog_console.commands import CommandLine, command
from oncelog_console.plans import Fate, Plan, PlanError, Plans
from oncelog_console.snapshot import Snapshot
from oncelog_protocol.errors import RequestTimedOutError
from oncelog_runtime.entropy import SeededEntropy

ANN, BOB = Author("s-ann", "ann", "10.0.0.1"), Author("s-bob", "bob", "10.0.0.2")


class World:
    """It has one number, which a change raises, and counts what is done."""

    def __init__(self) -> None:
        self.number = 1
        self.raised: list[int] = []
        self.fails: BaseException | None = None
        self.goes_on = asyncio.Event()
        self.goes_on.set()
        self.plans = Plans(SeededEntropy(1), lambda: 0.0, lambda: 0)
        clients = ClusterClients("nowhere:1")
        self.desk = Desk(Admin("nowhere:1"), clients, Snapshot, 0, Browsing())
        self.kind = ChangeKind("raise", "Raise", "It rises.", (FormField("by", "By"),), self._parse)

    def _parse(self, values: Values, now_ms: int) -> Raise:
        if not values["by"].isdecimal():
            raise FormError("by: a number is needed")
        return Raise(self, int(values["by"]))

    async def plan(self, author: Author = ANN, by: str = "2") -> Plan:
        return await planned(self.plans, author, self.kind, [("by", by)], self.desk)

    async def carry_out(self, plan: Plan, author: Author = ANN, typed: str = "yes") -> Plan:
        return await carried_out(self.plans, author, plan.token, typed, self.desk)


class Raise(ClusterChange):
    """It raises the number."""

    kind = "raise"

    def __init__(self, world: World, by: int) -> None:
        self.world = world
        self.by = by

    @property
    def subject(self) -> str:
        return "the number"

    @property
    def typed(self) -> str:
        return "yes"

    @property
    def page(self) -> str:
        return "/"

    def command(self, seen: Preview) -> CommandLine:
        return CommandLine(command("raise", by=self.by), stdin="secret")

    async def look(self, desk: Desk) -> Preview:
        if self.world.number > 100:
            raise RefusedError("it is too high")
        return Preview(Answer({}), {"the number": self.world.number}, work=self.world.number)

    async def carry_out(self, desk: Desk, seen: Preview) -> Answer:
        await self.world.goes_on.wait()
        if self.world.fails is not None:
            raise self.world.fails
        self.world.number = seen.work + self.by
        self.world.raised.append(self.by)
        return Answer({"number": self.world.number})

    async def arrived(self, desk: Desk, seen: Preview) -> bool:
        return True


@pytest.fixture
async def world() -> World:
    """The number is 1."""
    return World()


async def test_a_change_is_done_and_told(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    plan = await world.plan()
    assert "console_change" not in caplog.text, "a plan changes nothing"
    await world.carry_out(plan)
    assert (world.number, plan.fate) == (3, Fate.DONE)
    (line,) = caplog.text.splitlines()
    assert "console_change who=ann host=10.0.0.1 command=" in line
    assert "printf %s secret | oncelog raise --by 2" in line
    assert "outcome=done" in line


async def test_what_is_refused_is_told(world: World, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(FormError):
        await world.plan(by="x")
    plan = await world.plan()
    with pytest.raises(PlanError):
        await world.carry_out(plan, typed="no")
    with pytest.raises(PlanError):
        await world.carry_out(plan, BOB)
    world.number = 7
    with pytest.raises(PlanError, match="the number was 1, and is 7 now"):
        await world.carry_out(plan)
    with pytest.raises(PlanError):
        await world.carry_out(plan)
    world.number = 101
    with pytest.raises(RefusedError):
        await world.plan()
    assert world.raised == []
    told = [line for line in caplog.text.splitlines() if "console_change" in line]
    assert len(told) == 6
    assert all("outcome=refused" in line and "why=" in line for line in told)
    assert "who=bob" in told[2]
    assert [line.count("oncelog raise --by 2") for line in told] == [0, 1, 1, 1, 1, 0]


async def test_a_change_that_became_impossible_is_void(world: World) -> None:
    plan = await world.plan()
    world.number = 101
    with pytest.raises(PlanError, match="void.*it is too high"):
        await world.carry_out(plan)
    assert plan.fate is Fate.VOID


async def test_a_failure_uses_the_plan_up(world: World, caplog: pytest.LogCaptureFixture) -> None:
    plan = await world.plan()
    world.fails = RequestTimedOutError("the controller did not answer")
    assert (await world.carry_out(plan)).fate is Fate.FAILED
    assert plan.why == "the controller did not answer"
    assert "outcome=failed why='the controller did not answer'" in caplog.text
    world.fails = None
    with pytest.raises(PlanError, match="carried out already, and failed"):
        await world.carry_out(plan)


async def test_a_defect_uses_the_plan_up(world: World, caplog: pytest.LogCaptureFixture) -> None:
    plan = await world.plan()
    world.fails = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        await world.carry_out(plan)
    assert plan.fate is Fate.FAILED
    assert "it was interrupted, and may have happened" in caplog.text


async def test_two_clicks_are_one_change(world: World) -> None:
    plan = await world.plan()
    world.goes_on.clear()
    first = asyncio.create_task(world.carry_out(plan))
    await asyncio.sleep(0)
    with pytest.raises(PlanError, match="being carried out at this moment"):
        await world.carry_out(plan)
    other = await world.plan(BOB)
    with pytest.raises(PlanError, match="ann changes the number at this moment"):
        await world.carry_out(other, BOB)
    world.goes_on.set()
    await first
    with pytest.raises(PlanError, match="Meanwhile ann carried out"):
        await world.carry_out(other, BOB)
    assert world.raised == [2]

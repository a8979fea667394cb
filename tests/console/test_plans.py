"""A plan lives for five minutes, works once, for one session, and only while its facts hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from oncelog_cli.documents.answer import Answer
from oncelog_console.changes.change import ClusterChange, Desk, Facts, Preview
from oncelog_console.commands import CommandLine, command
from oncelog_console.plans import (
    FACT_ITEMS,
    KEPT_S,
    LIFE_S,
    OF_SESSION_MAX,
    PLANS_MAX,
    Fate,
    Plan,
    PlanError,
    Plans,
    differences,
    fact_text,
)
from oncelog_runtime.entropy import SeededEntropy


@dataclass(frozen=True, slots=True)
class Deletion(ClusterChange):
    """It stands for any change that destroys."""

    topic: str

    @property
    def subject(self) -> str:
        return f"topic {self.topic}"

    @property
    def typed(self) -> str:
        return self.topic

    @property
    def page(self) -> str:
        return "/topics"

    def command(self, seen: Preview) -> CommandLine:
        return CommandLine(command("topics delete", self.topic, yes=True))

    async def look(self, desk: Desk) -> Preview:
        raise NotImplementedError

    async def carry_out(self, desk: Desk, seen: Preview) -> Answer:
        raise NotImplementedError

    async def arrived(self, desk: Desk, seen: Preview) -> bool:
        raise NotImplementedError


class World:
    """It has plans, and a clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.plans = Plans(SeededEntropy(1), lambda: self.now_s, lambda: int(self.now_s * 1000))

    def made(self, session: str = "ann", *, topic: str = "orders", **facts: Any) -> Plan:
        return self.planned(facts, session, topic)

    def planned(self, facts: Facts, session: str = "ann", topic: str = "orders") -> Plan:
        return self.plans.make(session, session, Deletion(topic), Preview(Answer({}), facts))

    def refusal(self, plan: Plan, session: str = "ann", typed: str = "orders") -> tuple[str, str]:
        with pytest.raises(PlanError) as refused:
            self.plans.begin(plan.token, session, typed)
        return refused.value.reason, str(refused.value)


@pytest.fixture
def world() -> World:
    """Nobody has planned anything yet."""
    return World()


def test_tokens_are_random_and_long(world: World) -> None:
    tokens = {world.made().token for _ in range(5)}
    assert len(tokens) == 5
    assert all(len(bytes.fromhex(token)) == 32 for token in tokens)


def test_a_plan_works_once(world: World) -> None:
    plan = world.made()
    assert world.plans.begin(plan.token, "ann", "orders") is plan
    assert world.refusal(plan) == ("used", "this plan is being carried out at this moment")
    world.plans.done(plan, Answer({"topics": []}))
    reason, text = world.refusal(plan)
    assert reason == "used"
    assert text.endswith("already, by ann: oncelog topics delete orders --yes")
    assert world.plans.plan(plan.token, "ann").answer == Answer({"topics": []})


def test_a_plan_that_failed_is_used_up(world: World) -> None:
    plan = world.made()
    world.plans.begin(plan.token, "ann", "orders")
    world.plans.failed(plan, "the controller did not answer")
    assert world.refusal(plan)[1].endswith("failed: the controller did not answer")


def test_it_lives_five_minutes(world: World) -> None:
    plan = world.made()
    world.now_s += LIFE_S - 1
    assert world.plans.left_s(plan) == 1
    world.now_s += 1
    reason, text = world.refusal(plan)
    assert (reason, text) == ("expired", "this plan is older than 5 minutes: make it again")
    world.now_s += KEPT_S
    assert world.refusal(plan)[0] == "unknown"


def test_it_belongs_to_one_session(world: World) -> None:
    plan = world.made()
    assert world.refusal(plan, session="bob")[0] == "session"
    with pytest.raises(PlanError, match="another session"):
        world.plans.plan(plan.token, "bob")
    assert world.plans.begin(plan.token, "ann", "orders").fate is Fate.UNDER_WAY


@pytest.mark.parametrize("typed", ["", "order", "orders ", " orders", "Orders", "orders\n"])
def test_the_name_is_typed_exactly(world: World, typed: str) -> None:
    plan = world.made()
    assert world.refusal(plan, typed=typed)[0] == "typed"
    assert world.plans.begin(plan.token, "ann", "orders") is plan, "a mistake spoils nothing"


def test_it_is_void_when_a_fact_has_changed(world: World) -> None:
    plan = world.planned({"the end of orders-0": 98_331})
    world.plans.begin(plan.token, "ann", "orders")
    with pytest.raises(PlanError) as refused:
        world.plans.check(plan, {"the end of orders-0": 98_332})
    assert refused.value.reason == "void"
    assert "the end of orders-0 was 98,331, and is 98,332 now" in str(refused.value)
    assert plan.fate is Fate.VOID
    assert world.refusal(plan)[0] == "used"


def test_it_holds_while_its_facts_hold(world: World) -> None:
    facts = {"members": (), "end": 7, "leader": None}
    plan = world.planned(facts)
    world.plans.begin(plan.token, "ann", "orders")
    world.plans.check(plan, dict(facts))
    assert plan.fate is Fate.UNDER_WAY


def test_the_second_of_two_operators_is_told(world: World) -> None:
    first, second = world.made(end=1), world.made("bob", end=1)
    world.plans.begin(first.token, "ann", "orders")
    reason, text = world.refusal(second, session="bob")
    assert reason == "busy"
    assert text == "ann changes topic orders at this moment: oncelog topics delete orders --yes"
    world.now_s += 1
    world.plans.done(first, Answer({}))
    world.plans.begin(second.token, "bob", "orders")
    with pytest.raises(PlanError, match="Meanwhile ann carried out: oncelog topics delete orders"):
        world.plans.check(second, {"end": 2})


def test_changes_of_other_subjects_do_not_wait(world: World) -> None:
    first, other = world.made(), world.made(topic="bills")
    world.plans.begin(first.token, "ann", "orders")
    assert world.plans.begin(other.token, "ann", "bills") is other


def test_a_session_keeps_so_many(world: World) -> None:
    plans = [world.made() for _ in range(OF_SESSION_MAX + 1)]
    assert world.refusal(plans[0])[0] == "unknown"
    assert world.plans.begin(plans[1].token, "ann", "orders") is plans[1]


def test_all_sessions_keep_so_many(world: World) -> None:
    plans = [world.made(f"user-{number}") for number in range(PLANS_MAX + 1)]
    assert world.refusal(plans[0], session="user-0")[0] == "unknown"
    assert world.plans.begin(plans[1].token, "user-1", "orders") is plans[1]


def test_what_is_under_way_is_not_forgotten(world: World) -> None:
    plan = world.made()
    world.plans.begin(plan.token, "ann", "orders")
    for _ in range(OF_SESSION_MAX + 5):
        world.made()
    world.now_s += 2 * KEPT_S
    assert world.plans.plan(plan.token, "ann") is plan


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1234}, {"a": None}, ["a was 1,234, and is not known now"]),
        ({"a": ()}, {"a": ("x", 2)}, ["a was none, and is x, 2 now"]),
        ({"a": "x"}, {}, ["a was x, and is gone"]),
        ({}, {"b": True}, ["b is so, and was not there"]),
        ({"a": None}, {}, ["a was not known, and is gone"]),
    ],
)
def test_what_has_changed_is_said(
    before: dict[str, Any], now: dict[str, Any], words: list[str]
) -> None:
    assert differences(before, now) == words


def test_not_every_difference_is_listed(world: World) -> None:
    plan = world.planned({f"p{number}": 0 for number in range(30)})
    with pytest.raises(PlanError, match="; and 20 more"):
        world.plans.check(plan, {f"p{number}": 1 for number in range(30)})


def test_a_wrong_name_is_not_repeated_in_full(world: World) -> None:
    _, text = world.refusal(world.made(), typed="x" * 60_000)
    assert len(text) < 100


def test_a_long_fact_is_cut_for_people() -> None:
    assert fact_text((1, None, "a")) == "1, not known, a"
    text = fact_text(tuple("x" * (FACT_ITEMS + 5)))
    assert text.count("x") == FACT_ITEMS
    assert text.endswith(", and 5 more")

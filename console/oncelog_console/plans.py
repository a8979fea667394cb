"""Plans of changes are kept here between the page that shows one and the form that carries it out.

Rules: a plan names the facts that it saw. It lives five minutes, works once, belongs to the
session that made it, and is void when its facts have changed. What destroys needs its name typed,
exactly. Only one change of a subject is under way at a time. Plans are kept for an hour and in a
bounded number, so that whoever comes too late is told what has become of a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from oncelog_cli.documents.answer import Answer
from oncelog_console.changes.change import ClusterChange, Facts, Preview
from oncelog_runtime.entropy import Entropy

TOKEN_BYTES = 32
ID_BYTES = 8
LIFE_S = 300.0
"""A plan can be carried out for so long."""
KEPT_S = 3_600.0
"""What became of a plan is known for so long."""
OF_SESSION_MAX = 20
PLANS_MAX = 200
TYPED_MORE = 20
"""So many characters too many are repeated to whoever typed a wrong name."""
FACT_ITEMS = 200
"""So many items of one fact are named; of the others only the number."""
DIFFERENCES_MAX = 10
"""So many changed facts are named; of the others only the number."""


class Fate(StrEnum):
    """A plan has become this."""

    WAITING = "waiting"
    UNDER_WAY = "under way"
    VOID = "void"
    FAILED = "failed"
    DONE = "done"


class PlanError(Exception):
    """A plan is not carried out. The text says for people why."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason
        """It is one word, for the log: "unknown", "session", "expired", "used", "void", "typed" or
        "busy"."""


@dataclass(slots=True)
class Plan:
    """A change is to be carried out as it was shown."""

    token: str
    """Whoever carries it out must know it; nobody can guess it."""
    session_id: str
    who: str
    change: ClusterChange
    seen: Preview
    made_s: float
    made_ms: int
    plan_id: str
    """Its page has it in its address. Who knows it alone cannot carry the plan out."""
    kind: str = ""
    form: Sequence[tuple[str, str]] = ()
    """The form that asked for it said this; it is sent again to plan it anew."""
    fate: Fate = Fate.WAITING
    ended_ms: int = 0
    answer: Answer | None = None
    """It did this, once it is done."""
    why: str = ""
    """Why it is void, or has failed."""
    arrived: bool = False
    """Whether the cluster has shown what was changed."""

    @property
    def text(self) -> str:
        """Return the command line that does the same."""
        return self.change.command(self.seen).text()


class Plans:
    """It keeps the plans of all sessions.

    :param now_s: the time of the loop, by which plans end.
    :param now_ms: the wall clock, for people.
    """

    def __init__(
        self, entropy: Entropy, now_s: Callable[[], float], now_ms: Callable[[], int]
    ) -> None:
        self._entropy = entropy
        self._now_s = now_s
        self._now_ms = now_ms
        self._known: dict[str, Plan] = {}

    def make(
        self,
        session_id: str,
        who: str,
        change: ClusterChange,
        seen: Preview,
        form: Sequence[tuple[str, str]] = (),
    ) -> Plan:
        """Keep a new plan; the oldest of a session that has too many goes."""
        token = self._entropy.token(TOKEN_BYTES).hex()
        plan_id = self._entropy.token(ID_BYTES).hex()
        plan = Plan(
            token, session_id, who, change, seen, self._now_s(), self._now_ms(), plan_id,
            change.kind, form,
        )  # fmt: skip
        self._forget(session_id)
        self._known[token] = plan
        return plan

    def plan(self, token: str, session_id: str) -> Plan:
        """Return a plan of a session.

        :raises PlanError: it is not known (any more), or belongs to another session.
        """
        self._drop_old()
        plan = self._known.get(token)
        if plan is None:
            raise PlanError("unknown", "this plan is not known any more: make it again")
        if plan.session_id != session_id:
            raise PlanError("session", "this plan belongs to another session: make your own")
        return plan

    def of_session(self, session_id: str) -> list[Plan]:
        """Return the plans of a session that are still known, the newest first."""
        self._drop_old()
        own = [plan for plan in self._known.values() if plan.session_id == session_id]
        return own[::-1]

    def by_id(self, plan_id: str, session_id: str) -> Plan:
        """Return the plan of a session that has this id.

        :raises PlanError: it is not known (any more), or belongs to another session.
        """
        self._drop_old()
        for token, plan in self._known.items():
            if plan.plan_id == plan_id:
                return self.plan(token, session_id)
        return self.plan("", session_id)

    def told(self, token: str) -> str:
        """Return the command of a plan, for the log; "" when it is not known."""
        plan = self._known.get(token)
        return "" if plan is None else plan.change.told(plan.seen)

    def left_s(self, plan: Plan) -> float:
        """Return for how many seconds a plan can still be carried out."""
        return max(0.0, plan.made_s + LIFE_S - self._now_s())

    def begin(self, token: str, session_id: str, typed: str) -> Plan:
        """Take a plan to carry it out; from now on nobody else can.

        :param typed: what was typed to confirm it.
        :raises PlanError: it cannot be carried out; the text says why.
        """
        plan = self.plan(token, session_id)
        if plan.fate is not Fate.WAITING:
            raise PlanError("used", self._used(plan))
        if self.left_s(plan) <= 0:
            raise PlanError(
                "expired", f"this plan is older than {LIFE_S / 60:.0f} minutes: make it again"
            )
        name = plan.change.typed
        if name and typed != name:
            was = typed[: len(name) + TYPED_MORE]
            raise PlanError("typed", f"to confirm this, type {name!r} exactly; it was {was!r}")
        self._check_alone(plan)
        plan.fate = Fate.UNDER_WAY
        return plan

    def check(self, plan: Plan, facts: Facts) -> None:
        """Compare what a plan saw with what is there now.

        :raises PlanError: something has changed; the plan is void, and the text says what changed.
        """
        found = differences(plan.seen.facts, facts)
        if not found:
            return
        other = self._changed_by_another(plan)
        shown = "; ".join(found[:DIFFERENCES_MAX])
        more = len(found) - DIFFERENCES_MAX
        text = f"{shown}; and {more} more" if more > 0 else shown
        if other is not None:
            text = f"{text}. Meanwhile {other.who} carried out: {other.text}"
        raise self.void(plan, text)

    def shown(self, plan: Plan) -> None:
        """Note that the cluster shows what a plan has changed."""
        plan.arrived = True

    def done(self, plan: Plan, answer: Answer) -> None:
        """Note what a plan did."""
        plan.answer = answer
        self._end(plan, Fate.DONE, "")

    def failed(self, plan: Plan, why: str, answer: Answer | None = None) -> None:
        """Note that a plan could not be carried out; something of it may have happened.

        :param answer: what it did, where that is known.
        """
        plan.answer = answer
        self._end(plan, Fate.FAILED, why)

    def void(self, plan: Plan, why: str) -> PlanError:
        """Note that a plan is void, and return the error that says so."""
        self._end(plan, Fate.VOID, why)
        return PlanError("void", f"this plan is void, for its facts have changed: {why}")

    # ------------------------------------------------------------------------------ rules

    def _end(self, plan: Plan, fate: Fate, why: str) -> None:
        plan.fate, plan.why, plan.ended_ms = fate, why, self._now_ms()

    def _used(self, plan: Plan) -> str:
        match plan.fate:
            case Fate.UNDER_WAY:
                return "this plan is being carried out at this moment"
            case Fate.DONE:
                return f"this plan has been carried out already, by {plan.who}: {plan.text}"
            case Fate.VOID:
                return f"this plan is void, for its facts have changed: {plan.why}"
            case _:
                return f"this plan was carried out already, and failed: {plan.why}"

    def _check_alone(self, plan: Plan) -> None:
        for other in self._known.values():
            same = other.change.subject == plan.change.subject
            if same and other.fate is Fate.UNDER_WAY:
                text = f"{other.who} changes {plan.change.subject} at this moment: {other.text}"
                raise PlanError("busy", text)

    def _changed_by_another(self, plan: Plan) -> Plan | None:
        """Return the last change of the same subject that was carried out since a plan was made."""
        found = [
            other
            for other in self._known.values()
            if other.change.subject == plan.change.subject
            and other.fate is Fate.DONE
            and other.ended_ms >= plan.made_ms
        ]
        return max(found, key=lambda other: other.ended_ms, default=None)

    def _drop_old(self) -> None:
        oldest_s = self._now_s() - KEPT_S
        for token, plan in list(self._known.items()):
            if plan.made_s < oldest_s and plan.fate is not Fate.UNDER_WAY:
                del self._known[token]

    def _forget(self, session_id: str) -> None:
        """Make room for one plan more: of this session, and of all."""
        self._drop_old()
        own = [plan for plan in self._known.values() if plan.session_id == session_id]
        for some, most in ((own, OF_SESSION_MAX), (list(self._known.values()), PLANS_MAX)):
            idle = [plan for plan in some if plan.fate is not Fate.UNDER_WAY]
            for plan in idle[: max(0, len(some) - most + 1)]:
                self._known.pop(plan.token, None)


def differences(before: Facts, now: Facts) -> list[str]:
    """Return in words which facts have changed."""
    found = []
    for name in {**before, **now}:
        was, is_now = before.get(name, _MISSING), now.get(name, _MISSING)
        if was == is_now:
            continue
        if is_now is _MISSING:
            found.append(f"{name} was {fact_text(was)}, and is gone")
        elif was is _MISSING:
            found.append(f"{name} is {fact_text(is_now)}, and was not there")
        else:
            found.append(f"{name} was {fact_text(was)}, and is {fact_text(is_now)} now")
    return found


_MISSING: Mapping[str, Any] = {"missing": None}
"""No fact is this object."""


def fact_text(value: object) -> str:
    """Return a fact for people."""
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "so" if value else "not so"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, tuple):
        more = len(value) - FACT_ITEMS
        text = ", ".join(fact_text(each) for each in value[:FACT_ITEMS]) or "none"
        return f"{text}, and {more:,} more" if more > 0 else text
    return str(value)

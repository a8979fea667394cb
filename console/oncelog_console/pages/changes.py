"""A change is asked for by a form, shown as a plan, carried out, and waited for until it shows.

Rules: none of these addresses exists unless the console was started with ``--allow-changes``. A
plan has an address of its own, for the session that made it; carrying it out takes its token. A
form with a field that it does not have is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus

from oncelog_cli.documents.answer import Row
from oncelog_console.actions import carried_out, planned
from oncelog_console.changes.change import ChangeKind, FormError, RefusedError, ShownColumn
from oncelog_console.changes.kinds import KINDS, values_of
from oncelog_console.listing import ListHead, head_of
from oncelog_console.page import (
    BadRequestError,
    ChangeRoute,
    Form,
    NotFoundError,
    Page,
    PageRoute,
    Redirect,
    Visit,
)
from oncelog_console.plans import Fate, Plan, PlanError, fact_text
from oncelog_protocol.errors import OncelogError

SEEN_WITHIN_S = 3.0
"""A page waits so long for what was changed to show."""
LOOK_S = 0.1
OVERDUE_MS = 30_000
"""What does not show for so long is said to be overdue."""
SHOWN_ROWS = 200
"""So many rows of a table are shown, and so many facts, warnings and failures. The plan covers all
of them."""
CONFIRM_FIELDS = ("token", "typed")


@dataclass(frozen=True, slots=True)
class ChangeFormView:
    """A form asks for a change."""

    kind: ChangeKind
    values: dict[str, str]
    error: str = ""


@dataclass(frozen=True, slots=True)
class ChangesView:
    """The console can make these changes, and this session has planned these."""

    kinds: Sequence[ChangeKind]
    plans: Sequence[Plan]


@dataclass(frozen=True, slots=True)
class ShownTable:
    """A table of a plan is shown, its beginning at least."""

    title: str
    columns: Sequence[ShownColumn]
    rows: ListHead[Row]


@dataclass(frozen=True, slots=True)
class PlanView:
    """A plan is shown, or what has become of it."""

    plan: Plan
    kind: ChangeKind
    state: str
    """It is "waiting", "expired", "under way", "void", "failed" or "done"."""
    left_ms: int
    tables: Sequence[ShownTable]
    warnings: ListHead[str]
    facts: ListHead[tuple[str, str]]
    failures: ListHead[str]
    """These items failed, while others may have succeeded."""
    error: str = ""
    """Why it was not carried out just now."""
    waits: bool = False
    """Whether it is done, and the cluster does not show it yet."""
    overdue: bool = False


def plan_view(plan: Plan, left_s: float, now_ms: int, error: str = "") -> PlanView:
    """Return what the page of a plan shows."""
    state = plan.fate.value
    if plan.fate is Fate.WAITING and left_s <= 0:
        state = "expired"
    failures = [] if plan.answer is None else [
        f"{each.item}: {each.message}" if each.item else each.message
        for each in plan.answer.failures
    ]  # fmt: skip
    waits = plan.fate is Fate.DONE and not plan.arrived
    facts = head_of(tuple(plan.seen.facts.items()), SHOWN_ROWS)
    return PlanView(
        plan,
        KINDS[plan.kind],
        state,
        int(left_s * 1000),
        [
            ShownTable(each.title, each.columns, head_of(each.rows, SHOWN_ROWS))
            for each in plan.seen.tables
        ],
        head_of(plan.seen.warnings, SHOWN_ROWS),
        ListHead(
            tuple((name, fact_text(value)) for name, value in facts.items),
            facts.more,
        ),
        head_of(failures, SHOWN_ROWS),
        error,
        waits,
        waits and now_ms - plan.ended_ms > OVERDUE_MS,
    )


def _kind(visit: Visit) -> ChangeKind:
    kind = KINDS.get(visit.named("kind"))
    if kind is None:
        raise NotFoundError(f"there is no change {visit.named('kind')!r}")
    return kind


# ------------------------------------------------------------------------------ forms


async def show_changes(visit: Visit) -> Page:
    """List what can be changed, and the plans of this session."""
    plans = visit.console.plans.of_session(visit.session.session_id)
    return Page("Changes", "changes.html", ChangesView(list(KINDS.values()), plans))


async def show_form(visit: Visit) -> Page:
    """Show the form of a change; the address may fill fields in."""
    kind = _kind(visit)
    try:
        values = values_of(kind, visit.query.multi_items())
    except FormError as error:
        raise BadRequestError(str(error)) from None
    return Page(kind.title, "change_form.html", ChangeFormView(kind, values))


async def make_plan(visit: Visit, form: Form) -> Page | Redirect:
    """Plan what a form asks for, and show the plan; or the form again, with what is wrong."""
    kind, said = _kind(visit), form.multi_items()
    try:
        plan = await planned(visit.console.plans, visit.author, kind, said, visit.desk)
    except FormError as error:
        return _form_again(kind, said, str(error), HTTPStatus.BAD_REQUEST)
    except RefusedError as error:
        return _form_again(kind, said, str(error), HTTPStatus.CONFLICT)
    return Redirect(f"/plans/{plan.plan_id}")


def _form_again(
    kind: ChangeKind, said: Sequence[tuple[str, str]], error: str, status: HTTPStatus
) -> Page:
    values = {field.name: field.default for field in kind.fields}
    values |= {name: value for name, value in said if name in values}
    view = ChangeFormView(kind, values, error)
    return Page(kind.title, "change_form.html", view, status=status)


# ------------------------------------------------------------------------------ plans


async def show_plan(visit: Visit) -> Page:
    """Show a plan, or what has become of it; what was changed is waited for."""
    plan = _plan(visit)
    if plan.fate is Fate.DONE and not plan.arrived:
        await _wait(visit, plan)
    return _plan_page(visit, plan)


def _plan(visit: Visit) -> Plan:
    try:
        return visit.console.plans.by_id(visit.named("plan"), visit.session.session_id)
    except PlanError as error:
        raise NotFoundError(str(error)) from None


async def _wait(visit: Visit, plan: Plan) -> None:
    """Wait a moment until the cluster shows what a plan has changed."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + SEEN_WITHIN_S
    while True:
        visit.console.poller.refresh()
        try:
            arrived = await plan.change.arrived(visit.desk, plan.seen)
        except OncelogError:
            arrived = False
        if arrived:
            visit.console.plans.shown(plan)
            return
        if loop.time() >= until_s:
            return
        await asyncio.sleep(LOOK_S)


def _plan_page(
    visit: Visit, plan: Plan, error: str = "", status: HTTPStatus = HTTPStatus.OK
) -> Page:
    left_s = visit.console.plans.left_s(plan)
    view = plan_view(plan, left_s, visit.now_ms, error)
    answer = plan.answer or plan.seen.answer
    line = plan.change.command(plan.seen)
    return Page(
        view.kind.title, "plan.html", view, line, answer, asked_ms=plan.made_ms, status=status
    )


async def carry_out(visit: Visit, form: Form) -> Page | Redirect:
    """Carry a plan out, and show what has become of it."""
    plan = _plan(visit)
    said = form.multi_items()
    values = dict(said)
    if len(values) != len(said) or not values.keys() <= set(CONFIRM_FIELDS):
        raise BadRequestError(f"this form has the fields {', '.join(CONFIRM_FIELDS)}, each once")
    token, typed = values.get("token", ""), values.get("typed", "")
    try:
        found = await carried_out(visit.console.plans, visit.author, token, typed, visit.desk)
    except PlanError as error:
        status = HTTPStatus.BAD_REQUEST if error.reason == "typed" else HTTPStatus.CONFLICT
        return _plan_page(visit, plan, str(error), status)
    visit.console.poller.refresh()
    if found.kind == "abort-transaction":
        visit.console.poller.refresh("hanging")
    return Redirect(f"/plans/{found.plan_id}")


PAGES = (
    PageRoute("/changes", show_changes, changes=True),
    PageRoute("/changes/{kind}", show_form, changes=True),
    PageRoute("/plans/{plan}", show_plan, changes=True),
)
CHANGES = (
    ChangeRoute("/changes/{kind}", make_plan),
    ChangeRoute("/plans/{plan}", carry_out),
)

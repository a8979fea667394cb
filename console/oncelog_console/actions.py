"""Changes are planned and carried out here, and each is written to the log, also a refused one.

Rules: what was planned is looked at once more before it is carried out, and then done exactly
as it was seen. Every change that was carried out, that failed or that was refused is one line
``console_change``, with who, from where, and the command that does the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from oncelog_cli.documents.answer import Answer
from oncelog_cli.exits import CommandError
from oncelog_console.changes.change import (
    ChangeKind,
    Desk,
    FormError,
    RefusedError,
    failures_text,
)
from oncelog_console.changes.kinds import change_of
from oncelog_console.plans import Plan, PlanError, Plans
from oncelog_protocol.errors import OncelogError
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

TOLD_MAX = 4_000
"""So many characters of a command, and of a reason, are written to the log."""


@dataclass(frozen=True, slots=True)
class Author:
    """Somebody changes the cluster."""

    session_id: str
    name: str
    host: str
    """The address that the request came from."""


async def planned(
    plans: Plans, author: Author, kind: ChangeKind, form: Iterable[tuple[str, str]], desk: Desk
) -> Plan:
    """Look at what a form asks for, and keep a plan of it.

    :raises FormError: the form says something that cannot be.
    :raises RefusedError: it is not possible as things are.
    :raises OncelogError: the cluster did not answer, or does not let this user.
    """
    told = kind.name
    try:
        said = list(form)
        change = change_of(kind, said, desk.now_ms)
        told = f"{kind.name} {change.subject}"
        seen = await change.look(desk)
    except (FormError, RefusedError, OncelogError, CommandError) as error:
        _tell(author, told, "refused", str(error))
        raise
    return plans.make(author.session_id, author.name, change, seen, said)


async def carried_out(plans: Plans, author: Author, token: str, typed: str, desk: Desk) -> Plan:
    """Carry a plan out, as it was shown, and return it with what it did.

    :param typed: what was typed to confirm it.
    :raises PlanError: it is not carried out; the text says why.
    """
    try:
        plan = plans.begin(token, author.session_id, typed)
    except PlanError as error:
        _tell(author, plans.told(token), "refused", str(error))
        raise
    told = plan.change.told(plan.seen)
    try:
        await _check(plans, plan, desk)
    except PlanError as error:
        _tell(author, told, "refused", str(error))
        raise
    try:
        answer = await plan.change.carry_out(desk, plan.seen)
    except (OncelogError, CommandError, RefusedError) as error:
        _end(plans, author, plan, str(error) or type(error).__name__, None)
    except BaseException:
        _end(plans, author, plan, "it was interrupted, and may have happened", None)
        raise
    else:
        _end(plans, author, plan, failures_text(answer.failures), answer)
    return plan


async def _check(plans: Plans, plan: Plan, desk: Desk) -> None:
    """Look once more; raise PlanError unless everything is as it was."""
    try:
        seen = await plan.change.look(replace(desk, samples=False))
    except (RefusedError, OncelogError, CommandError) as error:
        raise plans.void(plan, str(error)) from None
    except BaseException:
        plans.void(plan, "nobody could look once more")
        raise
    plans.check(plan, seen.facts)


def _end(plans: Plans, author: Author, plan: Plan, failure: str, answer: Answer | None) -> None:
    told = plan.change.told(plan.seen)
    if failure:
        plans.failed(plan, failure, answer)
        _tell(author, told, "failed", failure)
    elif answer is not None:
        plans.done(plan, answer)
        _tell(author, told, "done", "")


def _tell(author: Author, command: str, outcome: str, why: str) -> None:
    """Write the line of one change."""
    command, why = command[:TOLD_MAX], why[:TOLD_MAX]
    if outcome == "done":
        logger.info(
            "console_change", who=author.name, host=author.host, command=command,
            outcome=outcome, why=why,
        )  # fmt: skip
    else:
        logger.warning(
            "console_change", who=author.name, host=author.host, command=command,
            outcome=outcome, why=why,
        )  # fmt: skip

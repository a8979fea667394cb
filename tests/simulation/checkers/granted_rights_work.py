"""[A35]: nothing that is allowed is refused for longer than the change takes that allowed it.

A user whose rights nobody changes is never refused.
"""

from __future__ import annotations

from simulation.checkers.violation import Rules, Violation
from simulation.history import History
from simulation.rights import Rights, user_of


def check(history: History, rules: Rules, rights: Rights) -> list[Violation]:
    """Find refusals of users who had the right all the time."""
    found: list[Violation] = []
    users = rights.users()
    for refusal in rights.refusals:
        what = f"{refusal.process} was refused with {refusal.error} at {refusal.ended_s:.3f} s"
        since_s = refusal.ended_s - rights.fetch_patience_s
        given = rights.grant(refusal.process, refusal.right, since_s, refusal.ended_s)
        if user_of(refusal.process) not in users:
            found.append(_violation(f"{what}, and nobody ever took a right of it"))
        elif given is not None:
            found.append(_violation(f"{what}, but {given}"))
    return found


def _violation(text: str) -> Violation:
    return Violation("A35", "granted_rights_work", text)

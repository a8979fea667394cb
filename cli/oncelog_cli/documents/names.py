"""Patterns of a command line become the names of topics, groups and transactional ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from oncelog_cli.documents.answer import Failures
from oncelog_cli.patterns import matching, some_found

if TYPE_CHECKING:
    from oncelog import Admin

INTERNAL_PREFIX = "__"
"""How the names of internal topics begin."""


async def topics_named(admin: Admin, patterns: Sequence[str], *, regex: bool) -> list[str]:
    """Return the topics that are meant: names as they are, or with ``regex`` those that match.

    An internal topic is meant only by an expression that begins as its name does: whoever writes
    ``.*`` means their own topics.

    :raises CommandError: no topic is meant.
    """
    known = await admin.list_topics(include_internal=True) if regex else []
    found = matching(known, patterns, regex=regex)
    if regex:
        internal = [pattern for pattern in patterns if pattern.startswith(INTERNAL_PREFIX)]
        meant = matching(found, internal, regex=True)
        found = [name for name in found if not name.startswith(INTERNAL_PREFIX) or name in meant]
    return some_found("topic", found, patterns)


async def groups_named(
    admin: Admin, patterns: Sequence[str], failures: Failures, *, regex: bool
) -> list[str]:
    """Return the groups that are meant; brokers that did not list theirs are failures.

    :raises CommandError: none is.
    """
    known: list[str] = []
    if regex:
        known = [group.group_id for group in failures.answered(await admin.list_groups())]
    return some_found("group", matching(known, patterns, regex=regex), patterns)


async def ids_named(
    admin: Admin, patterns: Sequence[str], failures: Failures, *, regex: bool
) -> list[str]:
    """Return the transactional ids that are meant; brokers that did not list theirs are failures.

    :raises CommandError: none is.
    """
    known: list[str] = []
    if regex:
        listed = failures.answered(await admin.list_transactions())
        known = [item.transactional_id for item in listed]
    return some_found("transactional id", matching(known, patterns, regex=regex), patterns)

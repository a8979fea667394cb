"""Every kind of change is in this table; forms are checked here against their fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oncelog_console.changes import configs, groups, leaders, records, topics, transactions
from oncelog_console.changes.change import ChangeKind, ClusterChange, FormError

KINDS: Mapping[str, ChangeKind] = {
    kind.name: kind
    for module in (records, configs, topics, leaders, groups, transactions)
    for kind in module.KINDS
}


def change_of(kind: ChangeKind, given: Iterable[tuple[str, str]], now_ms: int) -> ClusterChange:
    """Make the change that a form asks for.

    :raises FormError: a field that the form does not have, or one that makes no sense.
    """
    return kind.parse(values_of(kind, given), now_ms)


def values_of(kind: ChangeKind, given: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return a value for each field of a form, the default where nothing was sent.

    :raises FormError: a field is unknown, or named twice; or it has none of its choices.
    """
    values = {field.name: field.default for field in kind.fields}
    seen: set[str] = set()
    for name, value in given:
        if name not in values:
            raise FormError(f"{name!r} is no field of this form: {', '.join(values)}")
        if name in seen:
            raise FormError(f"{name}: named twice; one at a time is changed")
        seen.add(name)
        values[name] = value
    for field in kind.fields:
        allowed = [choice for choice, _ in field.choices]
        if allowed and values[field.name] not in allowed:
            raise FormError(f"{field.name}: {values[field.name]!r} is not {' or '.join(allowed)}")
    return values

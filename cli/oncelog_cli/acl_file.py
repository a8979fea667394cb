"""ACLs in a file are TOML, in the words of ``oncelog acls add``::

    [[acls]]
    allow = "User:app"
    operations = ["WRITE", "DESCRIBE"]
    topic = "orders"

``deny`` in place of ``allow``; ``group``, ``transactional_id`` or ``cluster = true`` in place of
``topic``; ``prefix = true`` and ``host`` as needed.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from oncelog_cli.acl_options import operation_word, sorted_bindings
from oncelog_cli.local.toml_writer import to_toml

if TYPE_CHECKING:
    from oncelog import AclBinding

_KINDS = {
    "topic": "TOPIC",
    "group": "GROUP",
    "transactional_id": "TRANSACTIONAL_ID",
    "cluster": "CLUSTER",
}
_FIELDS: Mapping[str, type] = {
    "allow": str,
    "deny": str,
    "operations": list,
    "topic": str,
    "group": str,
    "transactional_id": str,
    "cluster": bool,
    "prefix": bool,
    "host": str,
}
_WORDS = {str: "text", list: "a list", bool: "true or false"}


def write_acls(found: Iterable[AclBinding]) -> str:
    """Return the text of a file: one table for ACLs that differ in the operation alone."""
    from oncelog.admin.acl_rights import ALL, WILDCARD

    groups: dict[AclBinding, list[str]] = {}
    for entry in sorted_bindings(found):
        groups.setdefault(replace(entry, operation=ALL), []).append(entry.operation)
    kinds = {kind: key for key, kind in _KINDS.items()}
    tables: list[Any] = []
    for entry, operations in groups.items():
        key = kinds[entry.resource_type]
        table: dict[str, Any] = {entry.permission.lower(): entry.principal}
        table["operations"] = operations
        table[key] = True if key == "cluster" else entry.name
        if entry.pattern_type == "PREFIXED":
            table["prefix"] = True
        if entry.host != WILDCARD:
            table["host"] = entry.host
        tables.append(table)
    return to_toml({"acls": tables}).lstrip("\n") if tables else "acls = []\n"


def read_acls(text: str) -> list[AclBinding]:
    """Return the ACLs in the text of a file, each once.

    :raises ValueError: it is not as it must be; the text names the table, counted from 1.
    """
    document = tomllib.loads(text)
    tables = document.pop("acls", [])
    if document:
        raise ValueError(f"unknown key {next(iter(document))}; there is only acls")
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        raise ValueError("acls must be tables: [[acls]]")
    found: dict[AclBinding, None] = {}
    for number, table in enumerate(tables, 1):
        try:
            found.update(dict.fromkeys(_of_table(table)))
        except ValueError as error:
            raise ValueError(f"[[acls]] number {number}: {error}") from None
    return list(found)


def _of_table(table: Mapping[str, Any]) -> list[AclBinding]:
    from oncelog import AclBinding
    from oncelog.admin.acl_rights import ALLOW, CLUSTER_NAME, DENY, LITERAL, PREFIXED, WILDCARD
    from oncelog.errors import InvalidRequestError

    for key, value in table.items():
        if key not in _FIELDS:
            near = difflib.get_close_matches(key, _FIELDS, 1)
            hint = f"did you mean {near[0]}" if near else f"there are {', '.join(_FIELDS)}"
            raise ValueError(f"unknown key {key}; {hint}")
        if not isinstance(value, _FIELDS[key]):
            raise ValueError(f"{key} must be {_WORDS[_FIELDS[key]]}")
    permission = _only(table, ("allow", "deny"))
    kind = _only(table, tuple(_KINDS))
    if table[kind] is False:
        raise ValueError("cluster = false says nothing: leave it out")
    operations = table.get("operations", [])
    if not operations or not all(isinstance(each, str) for each in operations):
        raise ValueError('operations must be a list of words, such as ["READ"]')
    try:
        return [
            AclBinding(
                _KINDS[kind],
                PREFIXED if table.get("prefix") else LITERAL,
                CLUSTER_NAME if kind == "cluster" else table[kind],
                table[permission],
                table.get("host", WILDCARD),
                operation_word(operation),
                ALLOW if permission == "allow" else DENY,
            ).checked()
            for operation in operations
        ]
    except InvalidRequestError as error:
        raise ValueError(str(error)) from None


def _only(table: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    """Return the one of the keys that is there.

    :raises ValueError: none is, or several are.
    """
    given = [key for key in keys if key in table]
    if len(given) != 1:
        raise ValueError(f"give one of {', '.join(keys)}")
    return given[0]

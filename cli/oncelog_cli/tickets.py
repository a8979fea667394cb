"""A command line gives tickets and receipts as JSON, or as a file that holds it.

What a command of ours printed with ``--json`` is such a file too: what is meant stands in it under
``ticket`` or ``receipt``. ``-`` is standard input.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from oncelog_cli import typed
from oncelog_cli.options import UsageError

if TYPE_CHECKING:
    from oncelog.shared_transactions.transaction import Receipt, Ticket

T = TypeVar("T")
TicketOption = Annotated[
    str | None,
    typed.Option(
        "--ticket",
        metavar="FILE|JSON",
        help="Write as one of the writers of a shared transaction ('shared begin' prints it).",
    ),
]


def read_ticket(text: str) -> Ticket:
    """Return the ticket that ``text`` is, or that the file of that name holds.

    :raises UsageError: neither.
    """
    from oncelog.shared_transactions.transaction import Ticket

    return _read("ticket", text, Ticket.from_json)


def read_receipt(text: str) -> Receipt:
    """Return the receipt that ``text`` is, or that the file of that name holds.

    :raises UsageError: neither.
    """
    from oncelog.shared_transactions.transaction import Receipt

    return _read("receipt", text, Receipt.from_json)


def _read(what: str, text: str, parse: Callable[[str], T]) -> T:
    from oncelog.errors import ConfigurationError

    found = _document(what, text)
    try:
        return parse(json.dumps(found))
    except ConfigurationError as error:
        raise UsageError(f"{_name(text)}: {error}") from None


def _document(what: str, text: str) -> dict[str, Any]:
    given = text
    if not text.lstrip().startswith("{"):
        try:
            given = sys.stdin.read() if text == "-" else Path(text).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"no {what}: {error}") from None
    # A table may stand before it, where a command has printed both.
    lines = [line for line in given.splitlines() if line.lstrip().startswith("{")]
    for candidate in (given, *reversed(lines)):
        try:
            found = json.loads(candidate)
        except ValueError:
            continue
        if isinstance(found, dict):
            inner = found.get(what, found)
            if isinstance(inner, dict):
                return inner
    raise UsageError(f"{_name(text)} holds no {what}")


def _name(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")

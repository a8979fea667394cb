"""Tickets and receipts are read from JSON, from files of it, and from what commands have
printed."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from oncelog.shared_transactions.transaction import Receipt, Ticket
from oncelog_cli.options import UsageError
from oncelog_cli.tickets import read_receipt, read_ticket

TICKET = Ticket("b:1", "nightly", 5, 7, 60_000)
RECEIPT = Receipt("part-0", 31)


def test_json_is_taken_as_it_is() -> None:
    assert read_ticket(TICKET.to_json()) == TICKET
    assert read_receipt(f"  {RECEIPT.to_json()}") == RECEIPT


def test_files_hold_one(tmp_path: Path) -> None:
    path = tmp_path / "ticket.json"
    path.write_text(TICKET.to_json())
    assert read_ticket(str(path)) == TICKET


def test_documents_of_commands_hold_one(tmp_path: Path) -> None:
    document = tmp_path / "out.json"
    inner = json.loads(RECEIPT.to_json())
    document.write_text(json.dumps({"_command": "produce", "receipt": inner}, indent=2))
    assert read_receipt(str(document)) == RECEIPT
    table = tmp_path / "out.txt"
    table.write_text(f"PARTITION  RECORDS\n        0        1\n{RECEIPT.to_json()}\n")
    assert read_receipt(str(table)) == RECEIPT


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(TICKET.to_json()))
    assert read_ticket("-") == TICKET


@pytest.mark.parametrize(
    "text",
    [
        "no such file",
        "{",
        "{}",
        '{"writer": "w"}',
        '{"receipt": null}',
        '{"bootstrap_servers": "b:1", "transactional_id": "", "ordinal": 1, "tag": 1,'
        ' "timeout_ms": 5}',
    ],
)
def test_what_is_none(text: str) -> None:
    with pytest.raises(UsageError):
        read_ticket(text)
    with pytest.raises(UsageError):
        read_receipt(text)


def test_a_document_without_a_receipt_holds_none() -> None:
    with pytest.raises(UsageError):
        read_receipt('{"_command": "produce", "receipt": null}')

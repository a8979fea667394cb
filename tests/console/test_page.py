"""What an address says is checked before it is used; a document has what failed beside it."""

from __future__ import annotations

import pytest

from oncelog_cli.documents.answer import Answer, Failure
from oncelog_console.page import Page, document_of, server_sent
from support.console import Browser


@pytest.mark.parametrize("number", ["x", "0", "-1", "1e3", "9" * 100, "٣x"])
async def test_numbers_of_an_address(browser: Browser, number: str) -> None:
    refused = await browser.get(f"/topics?page={number}")
    assert refused.status == 400
    assert "page=" in refused.text
    assert (await browser.get("/topics?page=1,000")).status == 200


def test_a_document_has_its_errors_beside() -> None:
    page = Page(
        "t", "t.html", None, ("topics", "list"), Answer({"topics": []}, [Failure("x", "no")])
    )
    document, errors = document_of(page)
    assert document == {"topics": []}
    assert errors == [{"item": "x", "error": "FAILED", "message": "no"}]
    assert document_of(Page("t", "t.html", None)) == ({}, [])


def test_an_event_cannot_end_in_its_data() -> None:
    assert server_sent("row", "a\n\nevent: b\r\ndata: c\rd") == (
        "event: row\ndata: a\ndata: \ndata: event: b\ndata: data: c\ndata: d\n\n"
    )

"""Every API asks for what matrix.toml says, and for nothing else: on a real broker, each request.

The rows are those of the design's matrix. An API without a row fails here.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from oncelog_broker.server import api_table
from oncelog_broker.server.access import BETWEEN_BROKERS, Access
from oncelog_broker.server.authorizer import CLUSTER
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.registry import REQUESTS
from support.matrix import CODES, ROWS, MatrixRow, codes_of, is_allowed, is_refused, of_api
from support.matrix_world import Asked, world


@pytest.mark.parametrize("api", sorted(REQUESTS), ids=lambda api: ApiKey(api).name)
async def test_an_api_needs_what_its_rows_say_and_no_more(api: int, tmp_path: Path) -> None:
    assert of_api(api), "an API without a row in matrix.toml"
    asked = Asked()
    async with world(tmp_path, asked) as it:
        for row in of_api(api):
            for need in row.needs:
                asked.without(*need.any)
                response = await it.ask(row)
                assert is_refused(response, need), (str(row), need, response)
            if row.denied_by:
                asked.without(denied=row.denied_by)
                response = await it.ask(row)
                assert codes_of(response) == {("", CODES[CLUSTER])}, (str(row), response)
            for need in row.needs:
                for enough in need.any:
                    others = [each for each in need.any if each != enough]
                    asked.without(*others)
                    response = await it.ask(row)
                    assert is_allowed(response, row), (str(row), enough, response)
            asked.without()
            response = await it.ask(row)
            assert is_allowed(response, row), (str(row), response)
            assert set(asked.asked) == {need.any[0] for need in row.needs}, str(row)


async def test_a_client_is_no_broker_whatever_it_may(tmp_path: Path) -> None:
    between = [
        row
        for row in ROWS
        if row.from_broker and [need.any for need in row.needs] == [("CLUSTER_ACTION CLUSTER",)]
    ]
    assert {row.api for row in between} > {
        api for api in map(ApiKey, REQUESTS) if REQUESTS[api].between_brokers
    }
    asked = Asked()
    async with world(tmp_path, asked) as it:
        for row in between:
            response = await it.ask(replace(row, from_broker=False))
            assert codes_of(response) == {("", CODES[CLUSTER])}, str(row)


TABLE: dict[ApiKey, Access] = {
    **{row.api: row.access for row in api_table.CONTROLLER},
    **{row.api: row.access for row in api_table.GROUPS},
    **{row.api: row.access for row in api_table.TRANSACTIONS},
}


@pytest.mark.parametrize("api", TABLE, ids=lambda api: api.name)
def test_the_table_of_handlers_says_the_same(api: ApiKey) -> None:
    access = TABLE[api]
    broker = access == BETWEEN_BROKERS
    (row,) = [row for row in of_api(api) if not row.case and row.from_broker == broker]
    (need,) = row.needs
    expected = {f"{access.operation} {access.resource_type}"}
    if access.or_cluster:
        expected.add(f"{access.operation} CLUSTER")
    if access.or_writer:
        expected.add("WRITE some TOPIC")
    found = {words if "some" in words else " ".join(words.split()[:2]) for words in need.any}
    assert found == expected
    assert any(row.from_broker for row in of_api(api)) == (access.or_broker or broker)


# ---- what is hidden


def hidden_rows() -> list[MatrixRow]:
    """Return the rows that name a topic that may be hidden, and would tell it."""
    return [
        row
        for row in ROWS
        if not row.from_broker
        and any("TOPIC orders" in each for need in row.needs for each in need.any)
        and not {need.refused for need in row.needs} & {"left out"}
    ]


@pytest.mark.parametrize("row", hidden_rows(), ids=str)
@pytest.mark.hostile(41)
async def test_a_hidden_topic_answers_as_one_that_is_not_there(
    row: MatrixRow, tmp_path: Path
) -> None:
    """Hostile input 41: the bytes are the same but for the name."""
    hidden = {"DESCRIBE TOPIC orders"}
    for need in row.needs:
        if any("TOPIC orders" in each for each in need.any):
            hidden.update(need.any)
    asked = Asked()
    async with world(tmp_path, asked) as it:
        answers = []
        for topic in ("orders", "absent"):
            refused = [each.replace("orders", topic) for each in hidden]
            asked.without(*refused)
            response = await it.ask(row, orders=topic, open="open-none")
            answers.append(repr(response).replace(topic, "..."))
    assert answers[0] == answers[1]

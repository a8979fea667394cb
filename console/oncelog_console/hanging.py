"""Transactions that hang are looked for in the whole cluster here, a part of its topics at a time.

A client of its own looks, and is closed afterwards: a client keeps the metadata of every topic
fresh that it was asked about, which nobody else of the console needs.
"""

from __future__ import annotations

import asyncio

from oncelog.admin.transactions import TRANSACTION_TIMEOUT_MS_MAX
from oncelog_cli.documents.answer import Answer, Failures, Row
from oncelog_cli.documents.transactions import hanging_transactions
from oncelog_cli.group_offsets import Chosen
from oncelog_console.clients import ClusterClients
from oncelog_console.poller import SLICE_TOPICS, slices
from oncelog_protocol.errors import UnknownTopicOrPartitionError


async def hanging_everywhere(clients: ClusterClients) -> Answer:
    """Return the document of ``transactions find-hanging`` of all topics.

    :raises OncelogError: the cluster does not answer, or refuses.
    """
    rows: list[Row] = []
    failures = Failures()
    async with clients.admin() as admin:
        names = await admin.list_topics(include_internal=True)
        for some in slices(names):
            # A few topics are the whole cluster: one that is made or deleted meanwhile is no error.
            chosen = Chosen(topics=tuple(some)) if len(names) > SLICE_TOPICS else None
            try:
                answer = await hanging_transactions(
                    admin, chosen, max_timeout_ms=TRANSACTION_TIMEOUT_MS_MAX
                )
            except UnknownTopicOrPartitionError as error:
                failures.fail("", error)
                continue
            rows += answer.document["transactions"]
            failures += answer.failures
            await asyncio.sleep(0)
    return Answer({"transactions": rows}, failures)

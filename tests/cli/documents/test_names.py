"""Names are meant as they stand, or by expressions; a list that may lack some says so."""

from __future__ import annotations

import pytest

from oncelog import Admin
from oncelog_cli.documents.answer import Failures
from oncelog_cli.documents.names import groups_named, ids_named, topics_named
from oncelog_cli.exits import CommandError, UsageError
from oncelog_protocol.errors import CoordinatorLoadInProgressError
from oncelog_protocol.messages.transaction_admin import DescribedTransaction
from support.admin_cluster import AdminCluster, KnownGroup, KnownTransaction


async def test_topics(fake: AdminCluster, asker: Admin) -> None:
    for name in ("orders", "orders-old", "__consumer_offsets"):
        fake.create_topic(name)
    assert await topics_named(asker, ["x", "x"], regex=False) == ["x"], "known or not"
    assert await topics_named(asker, ["ord.*"], regex=True) == ["orders", "orders-old"]
    assert await topics_named(asker, [".*", "__con.*"], regex=True) == [
        *("__consumer_offsets", "orders", "orders-old"),
    ]
    with pytest.raises(CommandError, match="no topic matches x or y"):
        await topics_named(asker, ["x", "y"], regex=True)
    with pytest.raises(UsageError, match="is not a regular expression"):
        await topics_named(asker, ["("], regex=True)


@pytest.mark.slow  # a coordinator that loads is asked again for some seconds
async def test_groups_and_ids_of_a_list_that_may_lack_some(
    fake: AdminCluster, asker: Admin
) -> None:
    fake.known_groups["billing"] = KnownGroup(1)
    pay = DescribedTransaction(0, "pay", "Empty", 7, 4, 60_000)
    fake.known_transactions["pay"] = KnownTransaction(1, pay)
    fake.loading[2] = CoordinatorLoadInProgressError.code
    failures = Failures()
    assert await groups_named(asker, ["x"], failures, regex=False) == ["x"]
    assert await ids_named(asker, ["x"], failures, regex=False) == ["x"]
    assert failures == [], "nobody had to be asked"
    assert await groups_named(asker, ["bil.*"], failures, regex=True) == ["billing"]
    assert [each.item for each in failures] == ["broker 2"]
    assert await ids_named(asker, ["p.*"], failures, regex=True) == ["pay"]
    assert [each.item for each in failures] == ["broker 2"] * 2
    with pytest.raises(CommandError, match="no transactional id matches q"):
        await ids_named(asker, ["q"], failures, regex=True)

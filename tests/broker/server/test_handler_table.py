"""Every API of the registry has a handler, once everything is wired."""

from __future__ import annotations

from pathlib import Path

from oncelog_broker.server.handler_table import install_handlers
from oncelog_broker.server.handlers.alter_users import GuardedUsers
from oncelog_broker.server.handlers.controller_requests import ControllerRequests
from oncelog_protocol.registry import REQUESTS
from support.cluster import Cluster


def is_empty(directory: Path) -> bool:
    return not list(directory.iterdir())


async def test_no_api_is_left_out(tmp_path: Path) -> None:
    broker = Cluster(tmp_path, 1).make_broker(1)
    install_handlers(
        broker.dispatcher,
        broker_id=1,
        files=broker.files,
        logs=broker.logs,
        replicas=broker.replicas,
        image=broker.image,
        events=broker.events,
        fence=broker.fence,
        requests=ControllerRequests(broker.runner, broker.authorizer),
        creation=None,
        topics=broker.topics,
        coordination=broker.coordination,
        transactions=broker.transactions,
        producer_ids=broker.producer_ids,
        settings=broker.live,
        take_settings=broker.live.take,
        authorizer=broker.authorizer,
        acls=broker.acls,
        users=broker.users,
        known_quotas=broker.known_quotas,
        guarded=GuardedUsers([], "User:broker-{id}"),
        authenticate=broker.make_authenticate_handler(),
    )
    assert broker.dispatcher.served == frozenset(REQUESTS)
    assert is_empty(tmp_path), "a broker that is only made makes nothing"

"""DescribeCluster answers from the image."""

from __future__ import annotations

import pytest

from oncelog_broker.server.authorizer import AllowAllAuthorizer
from oncelog_broker.server.handlers.describe_cluster import DescribeClusterHandler
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_protocol.errors import ClusterAuthorizationFailedError
from oncelog_protocol.messages.metadata import (
    ClusterBroker,
    DescribeClusterRequest,
    ListenerAddress,
)
from support.fence import OpenFence
from support.server import DenyAll, answer


def test_every_broker_with_every_listener() -> None:
    image = MetadataImage("c")
    broker = ClusterBroker(3, 30, [ListenerAddress("internal", "h", 1)], "rack")
    image.note_controller(3, 8, [broker])
    response = answer(DescribeClusterHandler(image, AllowAllAuthorizer()), DescribeClusterRequest())
    assert (response.cluster_id, response.controller_id, response.controller_epoch) == ("c", 3, 8)
    assert response.brokers == [broker]


def test_of_its_own_epoch_a_broker_knows_before_any_controller_says_so() -> None:
    image, fence = MetadataImage("c"), OpenFence()
    handler = DescribeClusterHandler(image, AllowAllAuthorizer(), 3, fence)
    assert answer(handler, DescribeClusterRequest()).brokers == []
    fence.registered(40)
    assert answer(handler, DescribeClusterRequest()).brokers == [ClusterBroker(3, 40, [])]
    addresses = [ListenerAddress("internal", "h", 1)]
    others = ClusterBroker(2, 50, [])
    image.note_controller(2, 8, [others, ClusterBroker(3, 30, addresses, "rack")])
    own = ClusterBroker(3, 40, addresses, "rack")
    assert answer(handler, DescribeClusterRequest()).brokers == [others, own]


def test_who_may_not_is_refused() -> None:
    with pytest.raises(ClusterAuthorizationFailedError):
        answer(DescribeClusterHandler(MetadataImage("c"), DenyAll()), DescribeClusterRequest())

"""DescribeCluster answers from the image."""

from __future__ import annotations

import pytest

from oncelog_broker.server.authorizer import AllowAllAuthorizer
from oncelog_broker.server.handlers.describe_cluster import DescribeClusterHandler
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_protocol.errors import ClusterAuthorizationFailedError
from oncelog_protocol.messages.metadata import (
    ACTIVE,
    ClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribedBroker,
    ListenerAddress,
)
from oncelog_protocol.schema import decode, encode
from support.fence import OpenFence
from support.server import DenyAll, answer


def test_every_broker_with_every_listener() -> None:
    image = MetadataImage("c")
    addresses = [ListenerAddress("internal", "h", 1)]
    image.note_controller(3, 8, [ClusterBroker(3, 30, addresses, "rack", "draining", "h:9")])
    response = answer(DescribeClusterHandler(image, AllowAllAuthorizer()), DescribeClusterRequest())
    assert (response.cluster_id, response.controller_id, response.controller_epoch) == ("c", 3, 8)
    assert response.brokers == [DescribedBroker(3, 30, addresses, "rack", "draining", "h:9")]


def test_version_0_is_as_it_was() -> None:
    image = MetadataImage("c")
    image.note_controller(3, 8, [ClusterBroker(3, 30, [], "rack", ACTIVE, "h:9")])
    response = answer(DescribeClusterHandler(image, AllowAllAuthorizer()), DescribeClusterRequest())
    assert encode(response, 0) == [0, None, "c", 3, 8, [[3, 30, [], "rack"]]]
    assert encode(response, 1) == [0, None, "c", 3, 8, [[3, 30, [], "rack", "active", "h:9"]]]
    (told,) = decode(DescribeClusterResponse, encode(response, 0), 0).brokers
    assert (told.state, told.http) == ("", ""), "nothing is said, and so nothing is known"


def test_of_its_own_epoch_a_broker_knows_before_any_controller_says_so() -> None:
    image, fence = MetadataImage("c"), OpenFence()
    handler = DescribeClusterHandler(image, AllowAllAuthorizer(), 3, fence)
    assert answer(handler, DescribeClusterRequest()).brokers == []
    fence.registered(40)
    (alone,) = answer(handler, DescribeClusterRequest()).brokers
    assert alone == DescribedBroker(3, 40, [], state=ACTIVE)
    addresses = [ListenerAddress("internal", "h", 1)]
    others = ClusterBroker(2, 50, [])
    image.note_controller(2, 8, [others, ClusterBroker(3, 30, addresses, "rack", http="h:9")])
    assert answer(handler, DescribeClusterRequest()).brokers == [
        DescribedBroker(2, 50, [], state=ACTIVE),
        DescribedBroker(3, 40, addresses, "rack", ACTIVE, "h:9"),
    ]


def test_who_may_not_is_refused() -> None:
    with pytest.raises(ClusterAuthorizationFailedError):
        answer(DescribeClusterHandler(MetadataImage("c"), DenyAll()), DescribeClusterRequest())

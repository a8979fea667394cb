"""The cluster says here which features are in use, and a release that does not know one keeps out.

A feature is something that an older release would misread, such as replicas that are others than
when their topic was made. Once the store says that one is in use, a broker of such a release
neither registers nor becomes controller: it would act on what it does not understand. So going back
to that release is over, and it says so instead of doing harm.
"""

from __future__ import annotations

from collections.abc import Collection

from oncelog_controller import znodes
from oncelog_controller.state import ClusterState
from oncelog_controller.store import Create, MetadataStore, NoNodeError, Op, SetData, Watch
from oncelog_protocol.errors import OncelogError, UnsupportedVersionError

MOVES = "moves"
"""Partitions move: their replicas stand in their states, and not in their topics' nodes."""

KAFKA_BATCHES = "kafka_batches"
"""Logs hold batches of Kafka's clients as they came, beside ours."""

TRANSACTIONS_BY_NUMBER = "transactions_by_number"
"""Logs hold markers with numbers, which leave the epoch of a producer as it is."""

KNOWN: frozenset[str] = frozenset({MOVES, KAFKA_BATCHES, TRANSACTIONS_BY_NUMBER})
"""This release knows these features. Each broker says so when it registers."""


class UnknownFeatureError(OncelogError):
    """The cluster uses what this release does not know."""


def require_moves(cluster: ClusterState) -> None:
    """Return when replicas may become others: every registered broker knows moves.

    :raises UnsupportedVersionError: one does not.
    """
    old = cluster.without_feature(MOVES)
    if old:
        raise UnsupportedVersionError(
            f"brokers {', '.join(map(str, old))} run a release that knows no moves: update them "
            "first"
        )


def due(cluster: ClusterState) -> list[str]:
    """Return the features that a registered broker wants to use, that every one of them knows, and
    that are not in use, sorted."""
    brokers = cluster.brokers.values()
    wanted = {feature for broker in brokers for feature in broker.wants}
    return sorted(
        feature
        for feature in wanted & KNOWN - cluster.features
        if not cluster.without_feature(feature)
    )


def begin_use(cluster: ClusterState, feature: str) -> list[Op]:
    """Return what is to be written together with the first use of a feature; nothing when it is in
    use already. :meth:`ClusterState.use_feature` is to follow when that is written."""
    if feature in cluster.features:
        return []
    data = znodes.encode_features([*cluster.features, feature])
    if cluster.features_version is None:
        return [Create(znodes.FEATURES, data)]
    return [SetData(znodes.FEATURES, data, cluster.features_version)]


async def check_features(
    store: MetadataStore, known: Collection[str] = KNOWN, watch: Watch | None = None
) -> frozenset[str]:
    """Return the features that are in use, when this release may belong to the cluster. ``watch``
    is told when there are others.

    :raises UnknownFeatureError: the cluster uses a feature that is not ``known``.
    :raises CorruptNodeError: the store does not say which features are in use.
    :raises StoreError: it does not answer.
    """
    if watch is not None:
        await store.exists(znodes.FEATURES, watch)
    try:
        data, _ = await store.get(znodes.FEATURES)
    except NoNodeError:
        return frozenset()
    used = znodes.decode_features(data)
    unknown = [name for name in used if name not in known]
    if unknown:
        raise UnknownFeatureError(
            f"the cluster uses {', '.join(unknown)}, which this release does not know; start a "
            "release that is as new as that of the other brokers"
        )
    return frozenset(used)

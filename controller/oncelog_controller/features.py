"""The cluster says here which features are in use, and a release that does not know one keeps out.

A feature is something that an older release would misread, such as replicas that are others than
when their topic was made. Once the store says that one is in use, a broker of such a release
neither registers nor becomes controller: it would act on what it does not understand. So going back
to that release is over, and it says so instead of doing harm.
"""

from __future__ import annotations

from collections.abc import Collection

from oncelog_controller import znodes
from oncelog_controller.store import MetadataStore, NoNodeError
from oncelog_protocol.errors import OncelogError

KNOWN: frozenset[str] = frozenset()
"""This release knows these features: none yet."""


class UnknownFeatureError(OncelogError):
    """The cluster uses what this release does not know."""


async def check_features(store: MetadataStore, known: Collection[str] = KNOWN) -> None:
    """Return when this release may belong to the cluster.

    :raises UnknownFeatureError: the cluster uses a feature that is not ``known``.
    :raises CorruptNodeError: the store does not say which features are in use.
    :raises StoreError: it does not answer.
    """
    try:
        data, _ = await store.get(znodes.FEATURES)
    except NoNodeError:
        return
    unknown = [name for name in znodes.decode_features(data) if name not in known]
    if unknown:
        raise UnknownFeatureError(
            f"the cluster uses {', '.join(unknown)}, which this release does not know; start a "
            "release that is as new as that of the other brokers"
        )

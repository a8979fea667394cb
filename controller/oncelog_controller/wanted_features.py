"""The controller puts features in use here that brokers want, as soon as every broker knows them.

A broker says when it registers which features it wants to use, such as one that has a listener for
Kafka's clients. A feature that not every registered broker knows waits: the first look after the
last old one has gone or is updated finds it. From then on no release may join that does not know it
(``features``) [D17].
"""

from __future__ import annotations

from functools import partial

from oncelog_controller import features
from oncelog_controller.core import Core
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)


class WantedFeatures:
    """It begins the use of features."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def look(self) -> None:
        """Begin what brokers want and all know, once no write is under way: another one may begin
        to use a feature as well."""
        self._core.when_settled(self._begin)

    def _begin(self) -> None:
        cluster = self._core.cluster
        for feature in features.due(cluster):
            ops = features.begin_use(cluster, feature)
            self._core.write(ops, partial(self._used, feature))
            return

    def _used(self, feature: str) -> None:
        self._core.cluster.use_feature(feature)
        logger.info("feature_in_use", feature=feature)
        self.look()

"""AlterConfigs sets what topics have, and what of brokers may change while they run. Pure.

Rules
-----
* Everything is checked when it is set, by the rules of whoever will live by it; each resource of a
  request by itself, those of brokers one after the other.
* What all brokers share (KIP-226) may be a default of topics. Such a change is one of every topic
  without its own setting: electable replicas that are no longer needed are forgotten before it, in
  the order of the wire, and leaders are elected after it where that has become possible.
* A broker's settings are kept in a node that stays when the last one is taken back: its version
  only grows.
"""

from __future__ import annotations

from collections.abc import Mapping

from oncelog_controller import request_checks, znodes
from oncelog_controller.broker_settings import BrokerSettings
from oncelog_controller.config import ControllerConfig
from oncelog_controller.core import Core
from oncelog_controller.events import RequestReceived
from oncelog_controller.leadership import Leadership
from oncelog_controller.state import DynamicConfig
from oncelog_controller.store import Create, Op, SetData
from oncelog_controller.topic_requests import TopicRequests
from oncelog_protocol.errors import NO_ERROR, ApiError, InvalidRequestError
from oncelog_protocol.messages import admin
from oncelog_protocol.messages.replication import BROKER_DEFAULT
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

BROKER_ID_DIGITS_MAX = 10


class ConfigRequests:
    """It serves AlterConfigs."""

    def __init__(
        self, core: Core, leadership: Leadership, topics: TopicRequests, settings: BrokerSettings
    ) -> None:
        self._core = core
        self._leadership = leadership
        self._topics = topics
        self._settings = settings

    def loaded(self) -> None:
        """The store was read: let the controller be what its settings say. Topics come after."""
        self._core.use_config(self._settings.controller_config(self._set()))

    def alter(self, event: RequestReceived, request: admin.AlterConfigsRequest) -> None:
        """Alter settings, key by key (KIP-339)."""
        named = [f"{each.resource_type}:{each.resource_name}" for each in request.resources]
        twice = request_checks.check_once(named)
        results: list[admin.ConfigResourceResult] = []
        planned = self._set()
        for each, name in zip(request.resources, named, strict=True):
            result = admin.ConfigResourceResult(each.resource_type, each.resource_name)
            results.append(result)
            try:
                request_checks.refuse_twice(name, twice)
                if each.resource_type == admin.RESOURCE_BROKER:
                    self._alter_broker(each, planned, write=not request.validate_only)
                else:
                    self._topics.alter(event, each, write=not request.validate_only)
            except ApiError as error:
                result.error_code, result.error_message = error.code, str(error)
        self._core.reply_when_settled(
            event.request_id, admin.AlterConfigsResponse(NO_ERROR, results)
        )

    # ---- brokers

    def _set(self) -> dict[int, Mapping[str, str]]:
        """Return what is set, by broker."""
        return {b: config.overrides for b, config in self._core.cluster.broker_configs.items()}

    def _alter_broker(
        self,
        wish: admin.ConfigAlteration,
        planned: dict[int, Mapping[str, str]],
        *,
        write: bool,
    ) -> None:
        """``planned`` is what is set, with what this request has changed so far."""
        core = self._core
        broker_id = self._broker_id(wish.resource_name)
        overrides = self._settings.altered(broker_id, planned, wish.entries)
        if overrides == planned.get(broker_id, {}):
            return
        planned[broker_id] = overrides
        if not write:
            return
        config = self._settings.controller_config(dict(planned))
        known = core.cluster.broker_configs.get(broker_id)
        path, data = znodes.broker_config_path(broker_id), znodes.encode_config(overrides)
        op: Op = Create(path, data) if known is None else SetData(path, data, known.version)
        version = 0 if known is None else known.version + 1

        def applied() -> None:
            core.cluster.broker_configs[broker_id] = DynamicConfig(overrides, version)
            core.order_broker_configs()
            # Keys alone: which of them are secrets only the brokers know.
            logger.info(
                "broker_settings_changed",
                broker_name=wish.resource_name or "all",
                settings=list(overrides),
            )
            self._take(config)

        self._end_elrs(config)
        core.write([op], applied)

    def _broker_id(self, name: str) -> int:
        """:raises InvalidRequestError: it names no broker that is known."""
        if name == "":
            return BROKER_DEFAULT
        if not (name.isascii() and name.isdecimal()) or len(name) > BROKER_ID_DIGITS_MAX:
            raise InvalidRequestError(f"{name[:60]!r} is no broker id")
        cluster, broker_id = self._core.cluster, int(name)
        if broker_id not in cluster.brokers and broker_id not in cluster.broker_configs:
            raise InvalidRequestError(f"broker {broker_id} is not registered")
        return broker_id

    def _end_elrs(self, config: ControllerConfig) -> None:
        """Before a smaller min.insync.replicas lets high watermarks move without the ELRs, those
        must be gone from the store."""
        for name in sorted(self._core.cluster.topics):
            topic = self._core.cluster.topics[name]
            settings = request_checks.settled(name, topic.overrides, config.defaults())
            if settings.min_insync_replicas < topic.settings.min_insync_replicas:
                self._leadership.end_elr(topic, settings.min_insync_replicas)

    def _take(self, config: ControllerConfig) -> None:
        """Live by new settings."""
        core = self._core
        before = core.config
        core.use_config(config)
        for name in sorted(core.cluster.topics):
            topic = core.cluster.topics[name]
            was_unclean = topic.settings.unclean_leader_election_enable
            topic.settle(request_checks.settled(name, topic.overrides, config.defaults()))
            if topic.settings.unclean_leader_election_enable and not was_unclean:
                self._topics.elect_offline(topic)
        if not config.auto_leader_rebalance_enable:
            self._leadership.stop_rebalancing()
        elif (
            not before.auto_leader_rebalance_enable
            or before.leader_imbalance_check_interval_ms
            != config.leader_imbalance_check_interval_ms
        ):
            self._leadership.plan_rebalance()

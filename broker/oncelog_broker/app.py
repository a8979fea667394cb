"""One broker, wired: the only place where its rooms meet, and the only one that knows the controller.

Start: bind the listeners (so that ports are known and nothing is created when one is taken), look at
the directories, connect to the metadata store, learn the cluster id, load the logs, start replication,
serve the internal listener, register, run the controller's candidate, and serve clients once the
controller has described the cluster.

Stop (rule D10): have the leaderships moved, resign, leave, close the listeners, stop replication, sync
everything, write the clean-shutdown file with the broker epoch.

Losing the session with the metadata store is not the end: the broker goes on serving, registers again
under a new broker epoch, and is told what to do by the controller. What ends a broker comes
out of :attr:`Broker.failed`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

from oncelog_broker.config import BrokerConfig, ConfigError, ListenerConfig
from oncelog_broker.log.log_manager import LogConfig, LogManager
from oncelog_broker.preflight import check_directories, known_cluster_id
from oncelog_broker.replication.ports import ReplicaConfig
from oncelog_broker.replication.replica_manager import ReplicaManager
from oncelog_broker.replication.safeguards import Safeguards
from oncelog_broker.server.authorizer import AllowAllAuthorizer, Authorizer
from oncelog_broker.server.controller_channel import BrokerConnector, ControllerChannel, IsrChannel
from oncelog_broker.server.controller_fence import ControllerFence
from oncelog_broker.server.handler_table import install_handlers
from oncelog_broker.server.listener import Listener
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_broker.server.quotas import BytePool, ConnectionLimits
from oncelog_broker.server.router import Router
from oncelog_broker.server.topic_creation import TopicCreation
from oncelog_controller.membership import Membership
from oncelog_controller.runner import ControllerConfig, ControllerRunner
from oncelog_controller.store import MetadataStore, StoreError
from oncelog_protocol.errors import OncelogError
from oncelog_protocol.messages.metadata import ListenerAddress
from oncelog_protocol.messages.replication import ControlledShutdownRequest
from oncelog_runtime.clock import WallClock
from oncelog_runtime.entropy import Entropy
from oncelog_runtime.files import Files
from oncelog_runtime.tasks import Tasks

logger = logging.getLogger(__name__)

SESSION_FILE = "session.json"
"""In the first log directory: the session that owned the registration, to remove it after a crash."""


class BrokerFailedError(OncelogError):
    """The broker cannot go on."""

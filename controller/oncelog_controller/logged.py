"""The controller writes these log lines: names, texts, fields (see ``oncelog_runtime.logs``)"""

from __future__ import annotations

from oncelog_runtime.logs import Event
from oncelog_runtime.logs import get_logger as get_logger

# ---- accusations
ACCUSATION_REFUTED = Event(
    "accusation_refuted",
    "broker %d lives: it objected to brokers %s, which cannot connect to it",
    "broker_id accusers",
)

# ---- broker_gateway
BROKER_WITHOUT_LISTENER = Event(
    "broker_without_listener", "broker %d has no listener: it can get no orders", "broker_id"
)
ORDER_NOT_SENT = Event("order_not_sent", "broker %d: order not sent: %s", "broker_id error")
ORDERS_VOID = Event("orders_void", "broker %d has restarted: its orders are void", "broker_id")
ORDER_FAILED = Event("order_failed", "broker %d: order failed: %s", "broker_id error")

# ---- campaign
CONTROLLER_DEPOSED = Event(
    "controller_deposed", "controller %d of epoch %d was deposed", "controller controller_epoch"
)
RESIGNATION_UNSEEN = Event("resignation_unseen", "no contact with the store while stepping down")
RESIGNATION_NEEDLESS = Event("resignation_needless", "stepping down was needless: %s", "error")

# ---- clock_exchange
CLOCK_NOT_TOLD = Event("clock_not_told", "the time of day was not exchanged: %s", "error")
CLOCK_NOT_READ = Event("clock_not_read", "the clock of broker %s is not read: %s", "peer error")

# ---- kazoo_session
ZOOKEEPER_CLOSE_FAILED = Event("zookeeper_close_failed", "zookeeper client did not close cleanly")

# ---- leadership
UNCLEAN_ELECTION = Event(
    "unclean_election",
    "unclean election of %s: leader %d from outside ISR %s; records may be lost",
    "partition leader isr",
)
PARTITION_STATE_CONTRADICTS = Event(
    "partition_state_contradicts",
    "nothing more is written for a partition: %s, after %s",
    "error before",
)
LEADER_CHANGED = Event(
    "leader_changed",
    "%s: leader %d -> %d in epoch %d, ISR %s",
    "partition before leader leader_epoch isr",
)
LEADERS_PREFERRED = Event(
    "leaders_preferred", "%d leaderships go back to their preferred replicas", "partitions"
)
BROKER_SHUTS_DOWN = Event(
    "broker_shuts_down", "broker %d shuts down: %d partitions change", "broker_id partitions"
)
MEMBERS_LOST_DATA = Event(
    "members_lost_data", "members came back without all their data: %s", "members"
)
PARTITIONS_WITHOUT_REPLICA = Event(
    "partitions_without_replica",
    "no complete replica is left of %s: they wait for its data to come back, "
    "or for an unclean election",
    "partitions",
)

# ---- link
ORDER_NO_CONNECTION = Event("order_no_connection", "%s:%d: no connection: %s", "host port error")
LINK_LEADS_ASTRAY = Event(
    "link_leads_astray",
    "broker %d is registered at %s:%d, but %s: it gets no orders; check advertised_host and "
    "advertised_port of its listener between brokers, or the way there",
    "broker_id host port error",
)

# ---- config_requests
BROKER_SETTINGS_CHANGED = Event(
    "broker_settings_changed", "what is set for broker %s is now %s", "broker_name settings"
)

# ---- loader
REGISTRATION_IGNORED = Event(
    "registration_ignored", "broker %s: its registration is ignored: %s", "broker_id error"
)
PRODUCER_ID_BLOCKS_UNREADABLE = Event(
    "producer_id_blocks_unreadable", "no producer ids can be given: %s", "error"
)
TOPIC_IGNORED = Event("topic_ignored", "topic %s is ignored: %s", "topic error")
TOPIC_CONFIG_UNREADABLE = Event(
    "topic_config_unreadable", "settings of topic %s are ignored: %s", "topic error"
)
BROKER_SETTINGS_CORRUPT = Event(
    "broker_settings_corrupt", "what is set for broker %s is ignored: %s", "broker_name error"
)
DELETION_IGNORED = Event("deletion_ignored", "deletion %s is ignored: %s", "topic error")

# ---- machine
CONTROLLER_LOADED = Event(
    "controller_loaded",
    "controller epoch %d: %d brokers, %d topics, %d partitions change",
    "controller_epoch brokers topics partitions",
)
TOPIC_CONFIG_IGNORED = Event(
    "topic_config_ignored", "topic %s: its settings are not valid, ignored: %s", "topic error"
)
BROKERS_CHANGED = Event("brokers_changed", "brokers %s %s", "brokers what")
BROKER_SUSPECTED = Event(
    "broker_suspected",
    "broker %d refuses connections: suspected, %d partitions change",
    "broker_id partitions",
)
BROKER_CLEARED = Event("broker_cleared", "broker %d answers again: cleared", "broker_id")
REPLICAS_FAILED = Event("replicas_failed", "broker %d: %d replicas failed", "broker_id replicas")

# ---- membership
CLUSTER_CREATED = Event("cluster_created", "new cluster %s", "cluster_id")
BROKER_REGISTRATION_WRITTEN = Event(
    "broker_registration_written", "broker %d registered with epoch %d", "broker_id broker_epoch"
)
FORMER_REGISTRATION_REMOVED = Event(
    "former_registration_removed", "removing the registration of an earlier life of this broker"
)
FORMER_LIFE_SILENT = Event(
    "former_life_silent",
    "broker %d is registered at %s, where nobody answers: waiting until that session ends",
    "broker_id host",
)
REGISTRATION_STAYS = Event(
    "registration_stays", "the registration stays until the session ends: %s", "error"
)
SESSION_EXPIRED = Event("session_expired", "broker %d: the session expired", "broker_id")
BROKER_REGISTERS_AGAIN = Event("broker_registers_again", "broker %d registers again", "broker_id")

# ---- producer_ids
PRODUCER_IDS_GIVEN = Event(
    "producer_ids_given", "broker %d got producer ids %d to %d", "broker_id first last"
)

# ---- runner
CONTROLLER_FAILED = Event("controller_failed", "controller of broker %d failed", "broker_id")
CONTROLLER_ELECTED = Event(
    "controller_elected", "broker %d is controller of epoch %d", "broker_id controller_epoch"
)
CONTROLLER_RESIGNED = Event(
    "controller_resigned",
    "broker %d is no longer controller of epoch %d: %s",
    "broker_id controller_epoch reason",
)
CONTROLLER_SITS_OUT = Event(
    "controller_sits_out",
    "broker %d does not run for controller for %.0f s: others took it for dead, or cannot reach it",
    "broker_id seconds",
)
FORMER_CONTROLLER_NODE = Event(
    "former_controller_node", "/controller is from an earlier life of this broker"
)

# ---- term
CONTROLLER_LOADS = Event(
    "controller_loads", "controller epoch %d loads: %s", "controller_epoch why"
)
LOG_DIRS_REPORTED_FAILED = Event(
    "log_dirs_reported_failed", "brokers %s report failed log directories", "brokers"
)

ORDER_FENCED = Event(
    "order_fenced",
    "broker %d refuses orders of controller epoch %d: it knows a newer one; the store is asked",
    "broker_id controller_epoch",
)

# ---- topic_deletion
TOPIC_DELETED = Event("topic_deleted", "topic %s deleted, id %s", "topic topic_id")

# ---- topic_requests
TOPIC_CREATED = Event(
    "topic_created", "topic %s created: %d partitions, id %s", "topic partitions topic_id"
)
TOPIC_GREW = Event("topic_grew", "topic %s grown to %d partitions", "topic partitions")

# ---- zookeeper
ZOOKEEPER_CLOSE_LATE = Event(
    "zookeeper_close_late", "zookeeper session not closed in time; it will expire"
)
ZOOKEEPER_DISCONNECTED = Event(
    "zookeeper_disconnected", "zookeeper disconnected session=%#x", "session"
)
ZOOKEEPER_SESSION_EXPIRED = Event(
    "zookeeper_session_expired", "zookeeper session expired session=%#x", "session"
)
ZOOKEEPER_CONNECTED = Event(
    "zookeeper_connected", "zookeeper connected again session=%#x", "session"
)
ZOOKEEPER_WATCH_FAILED = Event(
    "zookeeper_watch_failed", "zookeeper watch not armed again path=%s error=%s", "path error"
)

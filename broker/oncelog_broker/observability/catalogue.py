"""The catalogue declares every metric of a broker: name, type, labels, meaning, Kafka's name. Pure.

It is the list that ``docs/metrics.md`` is made from; nothing else is ever shown. All names begin
with ``oncelog_`` and carry the label ``broker``, but for ``process_*``, whose names are those of
every Prometheus client. Units are last in the name; counters end in ``_total``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, unique


@unique
class MetricKind(Enum):
    """The type of a metric is named as Prometheus names it."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """A metric is one family of series. Metrics are compared by identity."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    """These labels come beside ``broker``."""
    kafka: str = ""
    """Dashboards for Kafka call the metric by this name."""

    @property
    def has_broker_label(self) -> bool:
        """Return whether its series say which broker they are of."""
        return not self.name.startswith("process_")


def _gauge(name: str, text: str, *labels: str, kafka: str = "") -> Metric:
    return Metric(name, MetricKind.GAUGE, text, labels, kafka)


def _counter(name: str, text: str, *labels: str, kafka: str = "") -> Metric:
    return Metric(name, MetricKind.COUNTER, text, labels, kafka)


def _histogram(name: str, text: str, *labels: str, kafka: str = "") -> Metric:
    return Metric(name, MetricKind.HISTOGRAM, text, labels, kafka)


# ---- broker

BROKER_INFO = _gauge(
    "oncelog_broker_info",
    "1, with the version, the cluster and the rack of the broker.",
    *("version", "cluster_id", "rack"),
    kafka="kafka_server_app_info",
)
BROKER_STATE = _gauge(
    "oncelog_broker_state",
    "1 for the state of the broker's service as it was told last: active, draining, "
    "decommissioning or decommissioned.",
    "state",
)
BROKER_PHASE = _gauge(
    "oncelog_broker_phase",
    "1 for the phase that the broker is in: new, binding, connecting, loading, registering, "
    "waiting, serving, stopping or stopped.",
    "phase",
    kafka="kafka_server_kafkaserver_brokerstate",
)
BROKER_READY = _gauge("oncelog_broker_ready", "1 when /readyz says yes, else 0.")
BROKER_REGISTRATIONS = _counter(
    "oncelog_broker_registrations_total",
    "Registrations in ZooKeeper: the first one, and one more after each session that expired.",
    kafka="kafka_server_sessionexpirelistener_zookeeperexpires_total",
)
STORE_CONNECTED = _gauge(
    "oncelog_zookeeper_connected", "1 while the ZooKeeper session has contact, else 0."
)
TOKEN_KEYS = _gauge(
    "oncelog_token_keys", "Keys by which tokens are verified; 0 where no listener takes tokens."
)
TOKEN_KEY_FAILURES = _counter(
    "oncelog_token_key_failures_total",
    "Looks for new keys of tokens that failed, at their URL or in their file. Former keys serve.",
)
CLOCK_LEAPS = _counter(
    "oncelog_clock_leaps_total",
    "Leaps of the wall clock here: it parted from the monotonic clock, or from other brokers.",
)
CLOCK_ERROR = _gauge(
    "oncelog_clock_error_seconds",
    "How far the wall clock is ahead of the checked time; 0 while it is believed.",
)
LOOP_LAG = _histogram(
    "oncelog_event_loop_lag_seconds",
    "How late timers run: what every request waits for beside its own work.",
    kafka="kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
)
LOOP_HELD = _counter(
    "oncelog_event_loop_held_total",
    "Turns of the event loop above 50 ms, in which nobody else was served. "
    "Each is in the log, with what ran.",
)
LOOP_HELD_SECONDS = _counter(
    "oncelog_event_loop_held_seconds_total", "How long those turns were together."
)
AUDIT_LINES_LOST = _counter(
    "oncelog_audit_lines_lost_total",
    "Lines of the audit that audit_log_file could not take: who did what is not on record.",
)
TASKS = _gauge("oncelog_tasks", "Supervised background tasks that run.", "owner")
ASSERTIONS_FAILED = _counter(
    "oncelog_assertions_failed_total",
    "Invariants that did not hold. Each is a defect; what it was about was taken out of service.",
    "room",
)
SCRAPE_ERRORS = _counter(
    "oncelog_scrape_errors_total",
    "Parts of this page that could not be told, for a reason that is in the log.",
    "part",
)
SCRAPE_SECONDS = _gauge(
    "oncelog_scrape_duration_seconds", "How long the page before this one took to make."
)

# ---- process

CPU_SECONDS = _counter("process_cpu_seconds_total", "User and system time.")
RESIDENT_BYTES = _gauge("process_resident_memory_bytes", "Resident memory.")
VIRTUAL_BYTES = _gauge("process_virtual_memory_bytes", "Virtual memory.")
OPEN_FDS = _gauge("process_open_fds", "Open file descriptors.", kafka="process_open_fds")
MAX_FDS = _gauge("process_max_fds", "File descriptors that may be open.", kafka="process_max_fds")
START_SECONDS = _gauge("process_start_time_seconds", "When the process started, since 1970.")

# ---- requests and connections

REQUESTS = _counter(
    "oncelog_requests_total",
    "Requests that were begun.",
    "api",
    kafka="kafka_network_requestmetrics_requests_total",
)
REQUEST_ERRORS = _counter(
    "oncelog_request_errors_total",
    "Errors in answers: of a whole request, and of single partitions of Produce and Fetch.",
    *("api", "error"),
    kafka="kafka_network_requestmetrics_errors_total, "
    "kafka_server_brokertopicmetrics_failedproducerequests_total",
)
REQUEST_LATENCY = _histogram(
    "oncelog_request_latency_seconds",
    "From the arrival of a request to its answer, waiting for replicas or for data included.",
    "api",
    kafka="kafka_network_requestmetrics_totaltimems, redpanda_kafka_request_latency_seconds",
)
REQUESTS_PARKED = _gauge(
    "oncelog_parked_requests",
    "Requests that wait for something: replicas, records, a rebalance.",
    "api",
    kafka="kafka_server_delayedoperationpurgatory_purgatorysize",
)
CONNECTIONS = _gauge(
    "oncelog_connections",
    "Open connections.",
    "listener",
    kafka="kafka_server_socket_server_metrics_connection_count",
)
CONNECTIONS_ACCEPTED = _counter(
    "oncelog_connections_accepted_total",
    "Connections that were let in.",
    "listener",
    kafka="kafka_server_socket_server_metrics_connection_creation_total",
)
CONNECTIONS_REFUSED = _counter(
    "oncelog_connections_refused_total",
    "Connections over max_connections or max_connections_per_ip.",
    "listener",
)
CONNECTIONS_THROTTLED = _counter(
    "oncelog_connections_throttled_total",
    "Connections over connection_rate_max or connection_rate_max_per_ip.",
    "listener",
)
CONNECTIONS_UNAUTHENTICATED = _gauge(
    "oncelog_connections_unauthenticated",
    "Open connections whose peers are not known yet.",
    "listener",
)
CONNECTIONS_CROWDED_OUT = _counter(
    "oncelog_connections_crowded_out_total",
    "Connections that were the oldest above connections_unauthenticated_max.",
    "listener",
)
CONNECTIONS_FOREIGN = _counter(
    "oncelog_connections_foreign_total",
    "Connections closed for TLS or HTTP on a plain listener, or for no TLS where it is spoken.",
    "listener",
)
CONNECTIONS_BROKEN = _counter(
    "oncelog_connections_broken_total",
    "Connections closed for broken input or a missed deadline.",
    "listener",
)
CONNECTIONS_IDLE_CLOSED = _counter(
    "oncelog_connections_idle_closed_total",
    "Connections closed after connections_max_idle_ms.",
    "listener",
    kafka="kafka_server_socket_server_metrics_expired_connections_killed_count",
)
AUTHENTICATIONS = _counter(
    "oncelog_authentications_total",
    "Peers that tried to prove who they are, by mechanism (CERTIFICATE, BROKER_ID beside those of "
    "SASL) and outcome (success, failure).",
    "mechanism",
    "outcome",
    kafka="kafka_server_socket_server_metrics_successful_authentication_total, "
    "kafka_server_socket_server_metrics_failed_authentication_total",
)
DENIALS = _counter(
    "oncelog_denials_total",
    "Requests, or items of them, that the asker had no right to.",
    "operation",
    "resource_type",
)
QUEUED_BYTES = _gauge(
    "oncelog_queued_bytes",
    "Bytes of unfinished requests and unsent answers of clients.",
    kafka="kafka_network_requestchannel_requestqueuesize",
)
QUEUED_BYTES_MAX = _gauge("oncelog_queued_bytes_max", "The setting queued_max_bytes.")
QUEUE_FULL = _counter(
    "oncelog_queue_full_total", "How often all clients had to wait, for queued_max_bytes were used."
)

# ---- traffic

TOPIC_BYTES_IN = _counter(
    "oncelog_topic_bytes_in_total",
    "Bytes of record batches that clients have appended.",
    "topic",
    kafka="kafka_server_brokertopicmetrics_bytesin_total",
)
TOPIC_MESSAGES_IN = _counter(
    "oncelog_topic_messages_in_total",
    "Records that clients have appended.",
    "topic",
    kafka="kafka_server_brokertopicmetrics_messagesin_total",
)
TOPIC_BYTES_OUT = _counter(
    "oncelog_topic_bytes_out_total",
    "Bytes of record batches sent to consumers.",
    "topic",
    kafka="kafka_server_brokertopicmetrics_bytesout_total",
)
REPLICATION_BYTES_IN = _counter(
    "oncelog_replication_bytes_in_total",
    "Bytes of record batches fetched from leaders.",
    kafka="kafka_server_brokertopicmetrics_replicationbytesin_total",
)
REPLICATION_BYTES_OUT = _counter(
    "oncelog_replication_bytes_out_total",
    "Bytes of record batches sent to followers.",
    kafka="kafka_server_brokertopicmetrics_replicationbytesout_total",
)

CATCH_UP_BYTES = _counter(
    "oncelog_catch_up_bytes_total",
    "Bytes of record batches for replicas that are far behind: in, fetched from leaders; out, sent "
    "to followers.",
    "direction",
    kafka="kafka_server_brokertopicmetrics_reassignmentbytesin_total, "
    "kafka_server_brokertopicmetrics_reassignmentbytesout_total",
)
CATCH_UP_PACE = _gauge(
    "oncelog_catch_up_pace_bytes",
    "Bytes a second that replicas far behind may have now, in and out, beside the other work of "
    "the broker.",
    "direction",
)

# ---- replication

PARTITIONS = _gauge(
    "oncelog_partitions",
    "Replicas on this broker.",
    kafka="kafka_server_replicamanager_partitioncount",
)
LEADERS = _gauge(
    "oncelog_leader_partitions",
    "Partitions that this broker leads.",
    kafka="kafka_server_replicamanager_leadercount",
)
UNDER_REPLICATED = _gauge(
    "oncelog_under_replicated_partitions",
    "Partitions led here with fewer replicas in sync than they have.",
    kafka="kafka_server_replicamanager_underreplicatedpartitions, "
    "redpanda_kafka_under_replicated_replicas",
)
UNDER_MIN_ISR = _gauge(
    "oncelog_under_min_isr_partitions",
    "Partitions led here that take no writes with acks=all, for too few replicas are in sync.",
    kafka="kafka_server_replicamanager_underminisrpartitioncount, "
    "kafka_cluster_partition_underminisr",
)
AT_MIN_ISR = _gauge(
    "oncelog_at_min_isr_partitions",
    "Partitions led here of which no replica more may leave the ISR, though they have more "
    "replicas than min_insync_replicas.",
    kafka="kafka_server_replicamanager_atminisrpartitioncount, kafka_cluster_partition_atminisr",
)
FAILED_REPLICAS = _gauge(
    "oncelog_failed_replicas",
    "Replicas out of service: their directory is offline, or they contradicted themselves.",
    kafka="kafka_server_replicamanager_offlinereplicacount",
)
DAMAGED_LOGS = _gauge(
    "oncelog_damaged_logs", "Logs in which rot was found and that are not whole again yet."
)
RECORDS_LOST = _gauge(
    "oncelog_committed_records_truncated",
    "Committed records that leaders had replicas here truncate: lost, by an unclean election.",
)
LEADERSHIPS = _counter(
    "oncelog_leaderships_taken_total",
    "Orders by which this broker became the leader of a partition.",
    kafka="redpanda_raft_leadership_changes",
)
ISR_SHRINKS = _counter(
    "oncelog_isr_shrinks_total",
    "Replicas lost from the ISR of partitions led here: changes that made one smaller.",
    kafka="kafka_server_replicamanager_isrshrinks_total",
)
ISR_EXPANDS = _counter(
    "oncelog_isr_expands_total",
    "Changes that made the ISR of a partition led here larger.",
    kafka="kafka_server_replicamanager_isrexpands_total",
)
FOLLOWER_LAG = _gauge(
    "oncelog_follower_lag_records",
    "Records that a follower lacks, of the partition led here that it is furthest behind in.",
    "follower",
    kafka="kafka_server_replicafetchermanager_maxlag",
)

# ---- partitions

PARTITION_START = _gauge(
    "oncelog_partition_start_offset",
    "First offset there is, told by the leader.",
    *("topic", "partition"),
    kafka="kafka_topic_partition_oldest_offset, kafka_log_log_logstartoffset",
)
PARTITION_END = _gauge(
    "oncelog_partition_high_watermark",
    "End of what is committed, told by the leader.",
    *("topic", "partition"),
    kafka="kafka_topic_partition_current_offset, redpanda_kafka_max_offset",
)
PARTITION_LOG_END = _gauge(
    "oncelog_partition_log_end_offset",
    "End of the log, of every replica.",
    *("topic", "partition"),
    kafka="kafka_log_log_logendoffset",
)
PARTITION_UNSTABLE = _gauge(
    "oncelog_partition_last_stable_offset_lag",
    "Committed records that readers of committed ones cannot have yet: behind open transactions.",
    *("topic", "partition"),
    kafka="kafka_cluster_partition_laststableoffsetlag",
)
PARTITION_SIZE = _gauge(
    "oncelog_partition_size_bytes",
    "Size of the log, of every replica.",
    *("topic", "partition"),
    kafka="kafka_log_log_size",
)
PARTITION_REPLICAS = _gauge(
    "oncelog_partition_replicas",
    "Replicas that the partition has, told by the leader.",
    *("topic", "partition"),
    kafka="kafka_topic_partition_replicas, kafka_cluster_partition_replicascount",
)
PARTITION_ISR = _gauge(
    "oncelog_partition_in_sync_replicas",
    "Replicas in the ISR, told by the leader.",
    *("topic", "partition"),
    kafka="kafka_topic_partition_in_sync_replica, kafka_cluster_partition_insyncreplicascount",
)
PARTITION_PREFERRED = _gauge(
    "oncelog_partition_leader_is_preferred",
    "1 when the leader is the first replica, else 0; told by the leader.",
    *("topic", "partition"),
    kafka="kafka_topic_partition_leader_is_preferred",
)
PARTITION_PRODUCERS = _gauge(
    "oncelog_partition_producers",
    "Producers that the partition remembers, told by the leader.",
    *("topic", "partition"),
    kafka="kafka_server_replicamanager_produceridcount",
)
PARTITION_OPEN_TXNS = _gauge(
    "oncelog_partition_open_transactions",
    "Transactions without a marker yet, told by the leader.",
    *("topic", "partition"),
)

# ---- disks

DIR_ONLINE = _gauge(
    "oncelog_log_dir_online",
    "1 while the directory works; 0 after an I/O error, until the broker starts again.",
    "directory",
    kafka="kafka_log_logmanager_offlinelogdirectorycount",
)
DIR_FULL = _gauge(
    "oncelog_log_dir_full", "1 while the directory refuses writes for want of room.", "directory"
)
DIR_FREE = _gauge(
    "oncelog_log_dir_free_bytes",
    "Free space of the file system.",
    "directory",
    kafka="kubelet_volume_stats_available_bytes",
)
DIR_TOTAL = _gauge(
    "oncelog_log_dir_total_bytes",
    "Size of the file system.",
    "directory",
    kafka="kubelet_volume_stats_capacity_bytes",
)
SYNC_SECONDS = _histogram(
    "oncelog_log_sync_seconds",
    "How long the rounds of sync took, group commits of all logs of a directory.",
    "directory",
    kafka="kafka_log_logflushstats_logflushrateandtimems",
)
LOAD_LOGS = _gauge("oncelog_load_logs", "Logs that the start has found.", "directory")
LOAD_LOGS_DONE = _gauge(
    "oncelog_load_logs_done",
    "Logs that the start has loaded so far.",
    "directory",
    kafka="kafka_log_logmanager_remaininglogstorecover",
)
LOAD_SEGMENTS_DONE = _gauge(
    "oncelog_load_segments_done",
    "Segments that the start has loaded so far.",
    "directory",
    kafka="kafka_log_logmanager_remainingsegmentstorecover",
)
CLEANER_PASSES = _counter(
    "oncelog_cleaner_passes_total", "Compactions of a log.", kafka="kafka_log_logcleaner"
)

# ---- controller

ACTIVE_CONTROLLER = _gauge(
    "oncelog_active_controller",
    "1 at the controller while it has contact with ZooKeeper, 0 at every other broker.",
    kafka="kafka_controller_kafkacontroller_activecontrollercount",
)
OFFLINE_PARTITIONS = _gauge(
    "oncelog_offline_partitions",
    "Partitions without a leader; 0 at brokers that are not controller.",
    kafka="kafka_controller_kafkacontroller_offlinepartitionscount, "
    "redpanda_cluster_unavailable_partitions",
)
IMBALANCED_PARTITIONS = _gauge(
    "oncelog_preferred_replica_imbalance",
    "Partitions not led by their first replica; 0 at brokers that are not controller.",
    kafka="kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
)
CLUSTER_BROKERS = _gauge(
    "oncelog_cluster_brokers",
    "Brokers that are registered; 0 at brokers that are not controller.",
    kafka="kafka_brokers, redpanda_cluster_brokers",
)
MISSING_BROKERS = _gauge(
    "oncelog_missing_brokers",
    "Brokers that partitions name as replicas and that are not registered; 0 at brokers that are "
    "not controller.",
)
CLUSTER_TOPICS = _gauge(
    "oncelog_cluster_topics",
    "Topics; 0 at brokers that are not controller.",
    kafka="kafka_controller_kafkacontroller_globaltopiccount, redpanda_cluster_topics",
)
CLUSTER_PARTITIONS = _gauge(
    "oncelog_cluster_partitions",
    "Partitions of all topics; 0 at brokers that are not controller.",
    kafka="kafka_controller_kafkacontroller_globalpartitioncount, redpanda_cluster_partitions",
)
REASSIGNING_PARTITIONS = _gauge(
    "oncelog_reassigning_partitions",
    "Partitions that move to other replicas; 0 at brokers that are not controller.",
    kafka="kafka_server_replicamanager_reassigningpartitions",
)
QUEUED_MOVES = _gauge(
    "oncelog_moves_queued",
    "Partitions that are to move and wait for their turn; 0 at brokers that are not controller.",
)
STALLED_MOVES = _gauge(
    "oncelog_moves_stalled",
    "Partitions whose move was held up for move_stall_timeout_ms; 0 at brokers that are not "
    "controller.",
)
LEADER_CHANGES = _counter(
    "oncelog_leader_changes_total",
    "Leaders that this broker, as controller, has replaced or taken away.",
    kafka="kafka_controller_controllerstats_leaderelectionrateandtimems",
)
UNCLEAN_ELECTIONS = _counter(
    "oncelog_unclean_leader_elections_total",
    "Leaders that this broker, as controller, has elected from outside the ISR: records may be "
    "lost.",
    kafka="kafka_controller_controllerstats_uncleanleaderelections_total",
)
CONTROLLER_TERMS = _counter(
    "oncelog_controller_terms_total", "Elections of the controller that this broker has won."
)

# ---- coordinators

COORDINATOR_PARTITIONS = _gauge(
    "oncelog_coordinator_partitions",
    "Partitions of groups or of transactions that this broker coordinates: loading, active, "
    "or failed (it is tried again).",
    *("coordinator", "state"),
    kafka="kafka_server_group_coordinator_metrics_num_partitions",
)
COORDINATOR_PENDING = _gauge(
    "oncelog_coordinator_pending_commits",
    "Answers of a coordinator that wait until what they rest on is committed.",
    "coordinator",
)

# ---- groups

GROUPS = _gauge(
    "oncelog_consumer_groups",
    "Groups that this broker coordinates.",
    "state",
    kafka="kafka_coordinator_group_groupmetadatamanager_numgroups",
)
GROUP_MEMBERS = _gauge(
    "oncelog_consumergroup_members",
    "Members of a group.",
    "consumergroup",
    kafka="kafka_consumergroup_members",
)
GROUP_GENERATION = _gauge(
    "oncelog_consumergroup_generation",
    "The number of a group's generation: it grows with each rebalance.",
    "consumergroup",
)
GROUP_LAG_SUM = _gauge(
    "oncelog_consumergroup_lag_sum",
    "Records that a group has yet to commit, of all its partitions whose end is known.",
    "consumergroup",
    kafka="kafka_consumergroup_lag_sum, kminion_kafka_consumer_group_topic_lag",
)
GROUP_LAG_SECONDS_MAX = _gauge(
    "oncelog_consumergroup_lag_seconds_max",
    "The largest oncelog_consumergroup_lag_seconds of a group.",
    "consumergroup",
)
GROUP_OFFSET = _gauge(
    "oncelog_consumergroup_current_offset",
    "What a group has committed.",
    *("consumergroup", "topic", "partition"),
    kafka="kafka_consumergroup_current_offset",
)
GROUP_LAG = _gauge(
    "oncelog_consumergroup_lag",
    "Records from what a group has committed to the end, which is the last stable offset.",
    *("consumergroup", "topic", "partition"),
    kafka="kafka_consumergroup_lag, kafka_consumer_consumer_fetch_manager_metrics_records_lag",
)
GROUP_LAG_SECONDS = _gauge(
    "oncelog_consumergroup_lag_seconds",
    "How long ago the end of the partition passed what a group has committed; 0 without lag. What "
    "happened before the coordinator was here is told from the timestamps of records.",
    *("consumergroup", "topic", "partition"),
    kafka="kafka_consumergroup_group_lag_seconds",
)

# ---- transactions

TRANSACTIONS = _gauge(
    "oncelog_transactional_ids",
    "Transactional ids that this broker coordinates, by the state of their last transaction.",
    "state",
)
TRANSACTION_AGE = _gauge(
    "oncelog_open_transaction_age_seconds_max",
    "How long ago the oldest transaction began that is not decided yet; 0 without any.",
)
TRANSACTION_ENDING = _gauge(
    "oncelog_transaction_ending_seconds_max",
    "How long ago the oldest transaction was decided whose markers are not all written; 0 without "
    "any.",
)

CATALOGUE: Mapping[str, tuple[Metric, ...]] = {
    "Broker": (
        *(
            BROKER_INFO,
            BROKER_STATE,
            BROKER_PHASE,
            BROKER_READY,
            BROKER_REGISTRATIONS,
            STORE_CONNECTED,
        ),
        *(CLOCK_LEAPS, CLOCK_ERROR, TOKEN_KEYS, TOKEN_KEY_FAILURES),
        *(LOOP_LAG, LOOP_HELD, LOOP_HELD_SECONDS, AUDIT_LINES_LOST),
        *(TASKS, ASSERTIONS_FAILED, SCRAPE_ERRORS, SCRAPE_SECONDS),
    ),
    "Process": (CPU_SECONDS, RESIDENT_BYTES, VIRTUAL_BYTES, OPEN_FDS, MAX_FDS, START_SECONDS),
    "Requests and connections": (
        *(REQUESTS, REQUEST_ERRORS, REQUEST_LATENCY, REQUESTS_PARKED, CONNECTIONS),
        *(CONNECTIONS_ACCEPTED, CONNECTIONS_REFUSED, CONNECTIONS_THROTTLED),
        *(CONNECTIONS_UNAUTHENTICATED, CONNECTIONS_CROWDED_OUT, CONNECTIONS_FOREIGN),
        *(CONNECTIONS_BROKEN, CONNECTIONS_IDLE_CLOSED, AUTHENTICATIONS, DENIALS),
        *(QUEUED_BYTES, QUEUED_BYTES_MAX, QUEUE_FULL),
    ),
    "Traffic": (
        *(TOPIC_BYTES_IN, TOPIC_MESSAGES_IN, TOPIC_BYTES_OUT),
        *(REPLICATION_BYTES_IN, REPLICATION_BYTES_OUT, CATCH_UP_BYTES, CATCH_UP_PACE),
    ),
    "Replication": (
        *(PARTITIONS, LEADERS, UNDER_REPLICATED, UNDER_MIN_ISR, AT_MIN_ISR, FAILED_REPLICAS),
        *(DAMAGED_LOGS, RECORDS_LOST, LEADERSHIPS, ISR_SHRINKS, ISR_EXPANDS, FOLLOWER_LAG),
    ),
    "Partitions": (
        *(PARTITION_START, PARTITION_END, PARTITION_LOG_END, PARTITION_UNSTABLE, PARTITION_SIZE),
        *(PARTITION_REPLICAS, PARTITION_ISR, PARTITION_PREFERRED, PARTITION_PRODUCERS),
        PARTITION_OPEN_TXNS,
    ),
    "Disks": (
        *(DIR_ONLINE, DIR_FULL, DIR_FREE, DIR_TOTAL, SYNC_SECONDS),
        *(LOAD_LOGS, LOAD_LOGS_DONE, LOAD_SEGMENTS_DONE, CLEANER_PASSES),
    ),
    "Controller": (
        *(ACTIVE_CONTROLLER, OFFLINE_PARTITIONS, IMBALANCED_PARTITIONS, CLUSTER_BROKERS),
        *(MISSING_BROKERS, CLUSTER_TOPICS, CLUSTER_PARTITIONS, REASSIGNING_PARTITIONS),
        *(QUEUED_MOVES, STALLED_MOVES),
        *(LEADER_CHANGES, UNCLEAN_ELECTIONS, CONTROLLER_TERMS),
    ),
    "Coordinators": (COORDINATOR_PARTITIONS, COORDINATOR_PENDING),
    "Groups": (
        *(GROUPS, GROUP_MEMBERS, GROUP_GENERATION, GROUP_LAG_SUM, GROUP_LAG_SECONDS_MAX),
        *(GROUP_OFFSET, GROUP_LAG, GROUP_LAG_SECONDS),
    ),
    "Transactions": (TRANSACTIONS, TRANSACTION_AGE, TRANSACTION_ENDING),
}
"""All metrics stand here under what they tell of, in the order of the page."""

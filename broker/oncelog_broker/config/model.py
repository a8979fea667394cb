"""This module declares the settings of one broker, which are checked as a whole at first.

Nothing is created before that check. Names are Kafka's in snake case. How to add one: a field here,
with its bounds, units last in its name, and a docstring that says what it does (its row in
``docs/broker-configs.md``). It is ``Dynamic[...]`` if it may change while the broker runs, and
``Secret[...]`` if nobody may see it.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from oncelog_broker.config.consistency import problems
from oncelog_broker.config.errors import InconsistentError
from oncelog_broker.config.marks import ClusterWide, Dynamic
from oncelog_broker.log.flusher import INLINE_BYTES_MAX, SYNC_TIMEOUT_MS
from oncelog_broker.log_levels import REPEAT_MAX, logger_name
from oncelog_protocol import limits
from oncelog_protocol.topic_config import TOPIC_SETTINGS

MAP_ENTRIES_MAX = 100
"""The settings made while brokers run are kept in one node, and every broker is told of it."""
TokenAlgorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]
UNSPECIFIED_HOSTS = ("", "0.0.0.0", "::", "[::]", "*")


class ListenerConfig(BaseModel):
    """A listener is one socket, with the address under which peers find it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")
    """Other settings refer to the listener by this name, as inter_broker_listener does."""
    host: str = "127.0.0.1"
    """The broker listens on this address; 0.0.0.0 means all, and then advertised_host is
    required."""
    port: int = Field(default=0, ge=0, le=65535)
    """The broker listens on this port; 0 takes a free one."""
    protocol: Literal["oncelog", "kafka"] = "oncelog"
    """Clients of this listener speak the protocol of Oncelog, or that of Kafka. Brokers speak their
    own with each other."""
    advertised_host: str | None = None
    """Peers find the listener under this name or address. Default: host."""
    advertised_port: int | None = Field(default=None, ge=1, le=65535)
    """Peers find the listener at this port. Default: the port that was taken."""
    tls_certificate_file: str | None = None
    """The listener's certificate and those between it and its CA, as PEM. With it the listener
    speaks TLS only."""
    tls_key_file: str | None = None
    """The certificate's private key, as PEM. Others must not be able to read the file."""
    tls_key_password_file: str | None = None
    """The key is encrypted with the password in this file."""
    tls_min_version: Literal["1.2", "1.3"] = "1.2"
    """The lowest version of TLS that is spoken. Between brokers it is always 1.3."""
    tls_client_ca_file: str | None = None
    """Certificates of peers are verified by the CAs in this file, as PEM. Between brokers it is
    required, since each verifies the other."""
    tls_client_auth: Literal["none", "optional", "required"] = "none"
    """none: peers are asked for no certificate. optional: who shows one is known by it. required:
    who shows none is refused."""
    tls_crl_file: str | None = None
    """Certificates of peers that these lists revoke, as PEM, are refused."""
    tls_principal: Literal["uri", "dns", "cn", "dn"] = "uri"
    """This part of a peer's certificate names its user: the URI or DNS name of
    subjectAltName, the common name, or the whole distinguished name. The URI `oncelog:NAME`, as
    `oncelog tls make` writes it, is the user NAME; any other URI is the user's whole name."""
    sasl_mechanisms: list[Literal["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"]] = []
    """Peers authenticate by one of these before anything else; PLAIN and OAUTHBEARER need TLS.
    Empty: by their certificates, or not at all."""

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        if self.advertised_host is None and self.host in UNSPECIFIED_HOSTS:
            raise ValueError(
                f"listener {self.name!r} binds to every address ({self.host!r}) and nobody can "
                "connect to that: set advertised_host to a name or address that peers can reach"
            )
        if self.advertised_host is not None and self.advertised_host in UNSPECIFIED_HOSTS:
            raise ValueError(
                f"advertised_host {self.advertised_host!r} of listener {self.name!r} is not an "
                "address: set it to a name or address that peers can reach"
            )
        return self


class BrokerConfig(BaseModel):
    """This model holds every setting of a broker. Units are in the names; sizes are in bytes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    # ---- Identity and listeners
    broker_id: int = Field(ge=0, le=2**31 - 1)
    """The broker has this id in its cluster. No other broker may have it, and its directories
    belong to it."""
    rack: str | None = Field(default=None, max_length=limits.NAME_CHARS_MAX)
    """The broker stands in this rack. Replicas of a partition are spread over racks."""
    log_dirs: list[str] = Field(min_length=1)
    """The logs are kept in these directories, on different disks as a rule. New replicas go where
    there is most room for each; a directory that fails takes only its own replicas along."""
    listeners: list[ListenerConfig] = Field(
        default=[ListenerConfig(name="internal"), ListenerConfig(name="external")], min_length=1
    )
    """The broker listens on these sockets, each with a name and the address that peers are told."""
    inter_broker_listener: str = "internal"
    """Brokers talk to each other through this listener; clients cannot give orders on any other."""
    inter_broker_listener_second: str | None = None
    """Brokers are served through this listener as well, while a cluster moves by rolling restarts
    from one listener between brokers to another. This broker calls none through it."""
    broker_principal: str = Field(default="User:broker-{id}", pattern=r"^User:[^{}]*\{id\}[^{}]*$")
    """A peer that has proved to be this user is the broker with this id, on the listener between
    brokers."""
    authorizer: Literal["none", "acl"] = "none"
    """none: everybody may do everything. acl: nobody may do what no ACL allows."""
    super_users: list[str] = []
    """These users may do everything, whatever ACLs say. Each is written User:name."""
    security_stale_max_ms: int = Field(default=30_000, ge=1000)
    """With authorizer=acl a broker serves no clients when it could not learn for so long what was
    revoked."""
    audit_log_file: str | None = None
    """This file gets one JSON object a line: who was let in, who was refused, and who changed the
    cluster. A file that is moved away is made anew. Default: these lines are among those of the
    log."""
    inter_broker_user: str | None = Field(default=None, pattern=r"^[A-Za-z0-9._@+-]{1,128}$")
    """This broker authenticates to others as this user, where their listener wants SASL; its
    principal is then User: and this name."""
    inter_broker_password_file: str | None = None
    """The password of inter_broker_user is in this file, which only its owner may read."""
    connections_max_reauth_ms: int = Field(default=0, ge=0)
    """A peer that authenticated by SASL has to do so again within this time, or its connection
    ends. 0: it need not."""

    # ---- Tokens
    oidc_issuer: str | None = Field(default=None, min_length=1, max_length=limits.NAME_CHARS_MAX)
    """With OAUTHBEARER tokens of this issuer are believed: their iss, letter by letter."""
    oidc_audience: str | None = Field(default=None, min_length=1, max_length=limits.NAME_CHARS_MAX)
    """Tokens must be for this audience: their aud, or one of it."""
    oidc_jwks_url: str | None = None
    """The issuer's public keys are fetched from this URL as a JWK set, over https. Redirects are
    not followed. While it is not to be had, the keys of before serve."""
    oidc_jwks_file: str | None = None
    """The issuer's public keys are in this file as a JWK set, instead of at a URL. A new file is
    taken within ten seconds."""
    oidc_ca_file: str | None = None
    """The certificate at oidc_jwks_url is verified by the CAs in this file, as PEM. Default: by the
    system's."""
    oidc_principal_claim: str = Field(default="sub", min_length=1, max_length=128)
    """This claim of a token is the user's name: 1 to 128 letters, digits and . _ @ + -"""
    oidc_algorithms: list[TokenAlgorithm] = Field(default=["RS256", "ES256"], min_length=1)
    """Tokens may be signed by these algorithms. None of them has a secret that both sides know."""

    # ---- ZooKeeper
    zookeeper_connect: str = Field(default="", max_length=4096)
    """The cluster's state is kept there: host:port[,host:port...][/chroot]"""
    zookeeper_session_timeout_ms: int = Field(default=6000, ge=100)
    """After so long without a sign of life the cluster takes a broker for gone."""
    zookeeper_connection_timeout_ms: int = Field(default=15_000, ge=100)
    """A start waits so long for ZooKeeper."""
    zookeeper_tls_ca_file: str | None = None
    """ZooKeeper is reached over TLS, and its certificate verified by the CAs in this file, as PEM:
    it must be for the host in zookeeper_connect."""
    zookeeper_tls_certificate_file: str | None = None
    """ZooKeeper is shown this certificate, as PEM, with those between it and its CA. Who has no
    zookeeper_user is known by it, and then all brokers show certificates of one name."""
    zookeeper_tls_key_file: str | None = None
    """The certificate's private key, as PEM. Others must not be able to read the file."""
    zookeeper_user: str | None = Field(default=None, pattern=r"^[A-Za-z0-9._@+-]{1,128}$")
    """ZooKeeper knows all brokers as this user. It is told the password in clear, so this needs TLS
    or a ZooKeeper on this machine."""
    zookeeper_password_file: str | None = None
    """The password of zookeeper_user is in this file, which only its owner may read."""
    zookeeper_acl: Literal["open", "creator"] = "open"
    """open: what brokers keep in ZooKeeper is for everybody who reaches it. creator: it is for the
    identity of the brokers alone."""

    # ---- Logs
    flush: Literal["commit", "interval"] = "commit"
    """commit: an offset counts once it is synced. interval: at once, synced every
    flush_interval_ms."""
    flush_interval_ms: int = Field(default=1000, ge=1)
    """With flush=interval, this is the longest time between a write and its sync."""
    flush_inline_bytes_max: int = Field(default=INLINE_BYTES_MAX, ge=0)
    """Sync rounds of at most so many bytes run on the event loop while the disk is quick; with 0
    all of them run in a worker thread."""
    log_dir_sync_timeout_ms: int = Field(default=SYNC_TIMEOUT_MS, ge=100)
    """A log directory in which a sync takes longer is offline until the broker is started again:
    its disk hangs, and other replicas take over. After a third of that its leaders give way to
    replicas that hold everything."""
    log_retention_check_interval_ms: Dynamic[int] = Field(default=300_000, ge=10)
    """The broker looks this often for segments that retention lets go."""
    producer_id_expiration_ms: Dynamic[int] = Field(default=86_400_000, ge=1)
    """A partition remembers a producer that no longer writes to it for so long; a retry that comes
    later than that is a duplicate. Default: a day."""
    producer_ids_per_partition_max: int = Field(default=100_000, ge=1, le=1_000_000)
    """A partition remembers so many producers. Above it, batches of others are refused, retriably,
    until some of them are old enough to be forgotten; see producer_id_expiration_ms."""
    log_checkpoint_interval_ms: int = Field(default=5_000, ge=10)
    """Recovery points, log starts and high watermarks are written down this often: records below
    them are not read again after a crash."""
    log_scrub_interval_ms: Dynamic[int] = Field(default=604_800_000, ge=0)
    """All that was synced is read again and held against its checksums once in this time, spread
    over it: rot is found while other replicas have what it took. 0: never. Default: 7 days."""
    log_scrub_bytes_per_second: Dynamic[int] = Field(default=16 * 1024 * 1024, ge=1024)
    """The scrubber reads at most so much of one log directory in a second, should the interval ask
    for more."""
    log_cleaner_enable: Dynamic[bool] = True
    """Topics with cleanup_policy=compact are compacted only if this is true."""
    log_cleaner_backoff_ms: Dynamic[int] = Field(default=15_000, ge=10)
    """The cleaner rests for so long when nothing is to be compacted."""
    log_cleaner_dedupe_buffer_bytes: Dynamic[int] = Field(default=64 * 1024 * 1024, ge=64 * 1024)
    """The keys of one pass may take so much memory; what does not fit is compacted in the next."""
    log_cleaner_io_max_bytes_per_second: Dynamic[int] = Field(default=64 * 1024 * 1024, ge=1024)
    """The cleaner may read and write so much in a second, of all log directories together."""
    log_cleaner_cpu_percent: Dynamic[int] = Field(default=20, ge=1, le=100)
    """The cleaner takes at most this share of one core; it works in slices of a few milliseconds
    and rests in between."""
    topic_defaults: ClusterWide[dict[str, str | int | bool]] = Field(
        default={}, max_length=MAP_ENTRIES_MAX
    )
    """Topics that do not override these settings get them (retention_ms, segment_bytes, ...)."""

    # ---- Topics
    default_replication_factor: int = Field(default=1, ge=1, le=32767)
    """Topics that are made without a replication factor get this one."""
    num_partitions: int = Field(default=1, ge=1, le=limits.PARTITION_COUNT_MAX)
    """Topics that are made without a number of partitions get this one."""
    min_insync_replicas: ClusterWide[int] = Field(default=1, ge=1, le=32767)
    """For topics that do not say: so many in-sync replicas must hold a record before it is
    committed; with fewer, writes with acks=all are refused."""
    auto_create_topics_enable: bool = False
    """If true, asking for a topic that does not exist makes it."""
    unclean_leader_election_enable: ClusterWide[bool] = False
    """For topics that do not say: if true, a replica that is not in sync may lead when no other is
    left. That loses committed records."""
    auto_leader_rebalance_enable: ClusterWide[bool] = True
    """If true, brokers get the leaderships back for which they are preferred."""
    leader_imbalance_check_interval_ms: ClusterWide[int] = Field(default=10_000, ge=50)
    """The controller looks this often for brokers without the leaderships for which they are
    preferred."""
    broker_report_interval_ms: ClusterWide[int] = Field(default=10_000, ge=100)
    """A broker tells the controller this often how full its disks are and how large its replicas;
    every second, if that is more often, while a partition moves of which it has one."""
    move_concurrent_per_broker: ClusterWide[int] = Field(default=2, ge=1, le=10_000)
    """While partitions move, so many replicas are added on one broker at a time; the other moves
    wait."""
    move_concurrent_max: ClusterWide[int] = Field(default=50, ge=1, le=100_000)
    """While partitions move, so many replicas are added at a time in the whole cluster."""
    move_stall_timeout_ms: ClusterWide[int] = Field(default=600_000, ge=1_000)
    """A move that is held up for so long is reported as stalled, and gives its place to others."""
    coordinator_preload_timeout_ms: ClusterWide[int] = Field(default=10_000, ge=0)
    """When a partition of `__consumer_offsets` or `__transaction_state` gets another leader because
    it moves, because its preferred replica is back, or because its leader drains, the next leader
    reads it before. It is waited for so long at most. 0: not at all."""
    balance_tolerance_percent: ClusterWide[int] = Field(default=10, ge=0, le=100)
    """A plan that balances the cluster leaves brokers alone whose bytes, and what is written to
    them, are so near to the mean."""
    balance_disk_high_percent: ClusterWide[int] = Field(default=80, ge=1, le=100)
    """No plan fills the disks of a broker further than that, and one that balances the cluster
    takes replicas off a broker whose disks are fuller."""
    balance_mode: ClusterWide[Literal["on_join", "continuous", "off"]] = "on_join"
    """When the controller has replicas moved that nobody has asked it to move. "on_join": once for
    a broker that was added, if it has less than half of what others have. "continuous": also
    whenever brokers are not alike, looked at twice. "off": never. A broker that is decommissioned
    loses its replicas in each mode."""
    balance_interval_ms: ClusterWide[int] = Field(default=300_000, ge=100)
    """With balance_mode "continuous" the controller looks this often how alike brokers are."""
    balance_settle_ms: ClusterWide[int] = Field(default=300_000, ge=0)
    """A broker is used by balance_mode when it has been there for so long; nothing is balanced
    while one with replicas has been gone for less."""
    balance_dead_after_ms: ClusterWide[int] = Field(default=0, ge=0)
    """The replicas of a broker that has been gone for so long are placed on others, unless
    balance_mode is "off"; 0: never."""

    # ---- Replication
    replica_lag_time_max_ms: Dynamic[int] = Field(default=10_000, ge=50)
    """A follower that was not caught up for longer leaves the ISR."""
    replica_fetch_wait_max_ms: int = Field(default=500, ge=1, le=limits.FETCH_WAIT_MS_MAX)
    """A leader keeps a fetch of a follower waiting so long when there is nothing new."""
    replica_fetch_min_bytes: int = Field(default=1, ge=1)
    """A follower waits for at least so many bytes, up to replica_fetch_wait_max_ms."""
    replica_fetch_response_max_bytes: int = Field(
        default=8 * 1024 * 1024, ge=1024, le=limits.FETCH_BYTES_MAX
    )
    """One response to a follower has at most so many bytes."""
    replica_fetch_max_bytes: int = Field(
        default=4 * 1024 * 1024, ge=1024, le=limits.FETCH_BYTES_MAX
    )
    """One response to a follower has at most so many bytes of one partition."""
    replica_catch_up_min_bytes_per_second: Dynamic[int] = Field(default=4 * 1024 * 1024, ge=65_536)
    """Replicas of this broker that are far behind fetch at least so much, all together; those that
    are far behind leaders here are sent at least so much."""
    replica_catch_up_max_bytes_per_second: Dynamic[int] = Field(default=0, ge=0)
    """They get at most so much; 0 means as much as the broker can do beside its other work.
    Replicas that are in sync, or nearly, are never held back."""

    # ---- Groups
    group_min_session_timeout_ms: ClusterWide[int] = Field(default=1_000, ge=1)
    """No member of a group may ask for a shorter session time-out."""
    group_max_session_timeout_ms: ClusterWide[int] = Field(default=1_800_000, ge=1)
    """No member of a group may ask for a longer session time-out."""
    group_initial_rebalance_delay_ms: ClusterWide[int] = Field(default=500, ge=0)
    """An empty group waits so long for more members after the first one."""
    group_max_size: ClusterWide[int] = Field(default=10_000, ge=1)
    """One group has at most so many members."""
    offsets_topic_num_partitions: int = Field(default=50, ge=1, le=100)
    """The internal topic of groups and their offsets is made with so many partitions; it cannot
    grow later. At most as many are possible as the controller makes in one write: brokers must hear
    of all of them at once."""
    offsets_topic_replication_factor: int = Field(default=3, ge=1, le=32767)
    """The internal topic of groups has so many replicas. It is not made before so many brokers are
    up; until then groups are refused, retriably. A cluster of fewer brokers needs a smaller number
    here."""
    offsets_topic_segment_bytes: int = Field(default=100 * 1024 * 1024, ge=1024)
    """The internal topic of groups has segments of this size. A coordinator begins by reading the
    topic; compaction keeps it small, but never touches the last segment."""
    offsets_retention_ms: ClusterWide[int] = Field(default=604_800_000, ge=1)
    """Offsets are kept so long after the last member has left the group, or, of groups without
    members, after the last commit."""
    offsets_retention_check_interval_ms: int = Field(default=600_000, ge=10)
    """The coordinator looks this often for offsets that have expired."""
    offset_metadata_max_bytes: ClusterWide[int] = Field(default=4_096, ge=0, le=64 * 1024)
    """A member may commit a text of at most so many bytes with an offset."""
    offset_commit_timeout_ms: int = Field(default=5_000, ge=1)
    """The coordinator of a group waits so long for the replicas of what it has written."""

    # ---- Transactions
    transaction_state_log_num_partitions: int = Field(default=50, ge=1, le=100)
    """The internal topic of transactional ids is made with so many partitions; see
    offsets_topic_num_partitions."""
    transaction_state_log_replication_factor: int = Field(default=3, ge=1, le=32767)
    """The internal topic of transactional ids has so many replicas. It is not made before so many
    brokers are up; until then transactions are refused, retriably. A cluster of fewer brokers needs
    a smaller number here."""
    transaction_state_log_segment_bytes: int = Field(default=100 * 1024 * 1024, ge=1024)
    """The internal topic of transactional ids has segments of this size. A coordinator begins by
    reading the topic, which compaction keeps small."""
    transaction_max_timeout_ms: ClusterWide[int] = Field(default=900_000, ge=1)
    """A producer may ask for no longer time, after which its open transaction is aborted."""
    transaction_by_number_enable: bool = True
    """If true, clients of Kafka from before KIP-890 may have transactions, where a listener speaks
    Kafka. Their epoch stays from one to the next, which guards them less well against what comes
    late. If false, they are refused when they begin."""
    transactional_id_expiration_ms: ClusterWide[int] = Field(default=604_800_000, ge=1)
    """A transactional id without an open transaction is kept so long after it was used last."""

    # ---- Stopping
    controlled_shutdown_enable: bool = True
    """If true, a broker that stops has its leaderships moved first."""
    controlled_shutdown_timeout_ms: int = Field(default=10_000, ge=0)
    """Moving the leaderships of a broker that stops may take so long."""

    # ---- Connections
    max_connections: Dynamic[int] = Field(default=2000, ge=1)
    """Each listener takes so many connections; a connection above that is refused."""
    max_connections_per_ip: Dynamic[int] = Field(default=1000, ge=1)
    """Each listener takes so many connections from one host."""
    connections_max_idle_ms: Dynamic[int] = Field(default=600_000, ge=0)
    """A connection without a request for so long is closed. 0: never."""
    connections_unauthenticated_max: Dynamic[int] = Field(default=256, ge=1)
    """Each listener has at most so many connections whose peers are not known yet, and of one
    address at most 32, loopback addresses apart. The oldest goes first. The listener between
    brokers has larger bounds of its own."""
    connection_rate_max: Dynamic[int] = Field(default=300, ge=1, le=1_000_000)
    """Each listener takes so many connections a second, and four times as many at once after a
    rest; a connection above that is refused. The listener between brokers has a larger bound of its
    own."""
    connection_rate_max_per_ip: Dynamic[int] = Field(default=50, ge=1, le=1_000_000)
    """Each listener takes so many connections a second from one address, and four times as many at
    once after a rest. Loopback addresses have no such bound."""
    connection_handshake_timeout_ms: int = Field(default=5_000, ge=10)
    """A connection has so long from being accepted until its peer is known: TCP, TLS and the first
    exchange together."""
    request_frame_timeout_ms: int = Field(default=10_000, ge=10)
    """A request may take so long from its first byte to its last."""
    response_stall_timeout_ms: int = Field(default=30_000, ge=10)
    """A client may leave its responses unread for so long."""
    connection_unsent_max_bytes: int = Field(default=16 * 1024 * 1024, ge=64 * 1024)
    """When one connection has more unsent responses than this, nothing more is read from it."""
    queued_max_bytes: Dynamic[int] = Field(default=256 * 1024 * 1024, ge=1024 * 1024)
    """All clients together may hold so many bytes of unfinished requests and unsent responses."""
    max_in_flight_requests: int = Field(default=limits.IN_FLIGHT_REQUESTS_MAX, ge=1, le=10_000)
    """One connection may have so many unanswered requests; the next one is read after that."""

    # ---- Metrics and probes
    metrics_host: str = Field(default="127.0.0.1", min_length=1, max_length=limits.NAME_CHARS_MAX)
    """The HTTP port with /metrics, /livez, /readyz and /startupz listens on this address; 0.0.0.0
    means all. It shows names of topics and groups; without metrics_token_file it asks nobody who
    they are. DescribeCluster tells where the port is; one that listens on all addresses is found
    under the host that inter_broker_listener advertises."""
    metrics_port: int | None = Field(default=None, ge=0, le=65535)
    """The HTTP port has this number; without it there is no such port. 0 takes a free one, which
    the ready file names."""
    metrics_tls_certificate_file: str | None = None
    """The HTTP port's certificate and those between it and its CA, as PEM. With it the port speaks
    TLS only. Renewed files are taken for new connections."""
    metrics_tls_key_file: str | None = None
    """The certificate's private key, as PEM. Others must not be able to read the file."""
    metrics_tls_key_password_file: str | None = None
    """The key is encrypted with the password in this file."""
    metrics_tls_min_version: Literal["1.2", "1.3"] = "1.2"
    """The lowest version of TLS that the HTTP port speaks."""
    metrics_token_file: str | None = None
    """The HTTP port shows what is not a probe to those only who bring the token in this file, of at
    least 16 characters, as `Authorization: Bearer`. A new token is taken within ten seconds."""
    metrics_topics_max: int = Field(default=1000, ge=0)
    """So many topics of one broker have metrics of their own; all others are counted together, as
    topic "(other)"."""
    metrics_partitions_max: int = Field(default=4000, ge=0)
    """So many partitions of one broker have metrics of their own: those of the first topics, each
    topic whole or not at all."""
    metrics_groups_max: int = Field(default=1000, ge=0)
    """So many consumer groups have metrics of their own, of which at most metrics_partitions_max
    partitions are shown."""
    metrics_lag_interval_ms: int = Field(default=5_000, ge=100)
    """The coordinator of groups asks this often where the partitions end that they read, for their
    lag in records and in time. It asks only while there is a metrics_port."""

    # ---- The log of the process
    log_format: Literal["auto", "text", "json"] = "auto"
    """auto: text for a person at a terminal, JSON lines otherwise."""
    log_level: Dynamic[Literal["debug", "info", "warning", "error"]] = "info"
    """Less important lines are not written."""
    log_levels: Dynamic[dict[str, Literal["debug", "info", "warning", "error", "critical"]]] = (
        Field(default={}, max_length=MAP_ENTRIES_MAX)
    )
    """Rooms (log, replication, coordinator, transactions, server, controller, runtime, zookeeper)
    or single loggers (oncelog_broker.log.cleaner) have these levels where they differ from
    log_level."""
    log_repeat_max: int = Field(default=REPEAT_MAX, ge=0)
    """So many lines of one event about the same thing are written in ten seconds; what is more is
    counted and told with a later line. 0: all lines."""

    @field_validator("log_levels")
    @classmethod
    def _known_loggers(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            logger_name(name)
        return value

    @field_validator("log_dirs")
    @classmethod
    def _distinct_dirs(cls, value: list[str]) -> list[str]:
        seen: dict[str, str] = {}
        for path in value:
            if not path.strip() or "\0" in path:
                raise ValueError("a log directory must be a path")
            key = path.rstrip("/") or "/"
            if key in seen:
                raise ValueError(f"{path!r} is named twice: each directory once")
            seen[key] = path
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        found = problems(self.model_dump(), self.topic_default_texts())
        if found:
            raise InconsistentError(found)
        return self

    def topic_default_texts(self) -> dict[str, str]:
        """Return the defaults of topic settings as texts, with those that are settings of their
        own."""
        texts = {k: _text(v) for k, v in self.topic_defaults.items()}
        texts.setdefault("min_insync_replicas", str(self.min_insync_replicas))
        texts.setdefault(
            "unclean_leader_election_enable", _text(self.unclean_leader_election_enable)
        )
        if "flush" in TOPIC_SETTINGS:
            texts.setdefault("flush", self.flush)
        return texts

    @property
    def broker_listeners(self) -> tuple[str, ...]:
        """Return the names of the listeners through which brokers are served."""
        second = self.inter_broker_listener_second
        return (self.inter_broker_listener, *([] if second is None else [second]))

    def listener(self, name: str) -> ListenerConfig:
        """Return the listener of this name."""
        return next(listener for listener in self.listeners if listener.name == name)


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

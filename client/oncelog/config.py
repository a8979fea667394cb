"""Clients take typed options and check them when they are made. Names are Kafka's in snake case,
units last.

Rules: every option has a default that is safe; a wrong value raises ConfigurationError naming the
option, the value and what is allowed. Nothing here reads files or the environment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, Literal, NamedTuple, TypeVar

from oncelog import defaults
from oncelog.bootstrap_url import split_url
from oncelog.errors import ConfigurationError
from oncelog.security import Security
from oncelog_protocol import limits
from oncelog_protocol.records import compression
from oncelog_protocol.types import Acks, IsolationLevel, address_text

BootstrapServers = str | Sequence[str]
AcksOption = Literal["all", "0", "1"] | int
ResetOption = Literal["earliest", "latest", "none", "error"] | str | timedelta
"""A reset by duration is a timedelta, or Kafka's "by_duration:PT1H" (KIP-1106)."""
CompressionOption = Literal["none", "gzip", "lz4", "zstd"]
CorruptBatchesOption = Literal["raise", "skip"]
IsolationOption = Literal["read_uncommitted", "read_committed"]

T = TypeVar("T")

DEFAULT_PORT = 9092
GROUP_ID_CHARS_MAX = 1024
"""A group's id may have this many characters; the coordinator may allow fewer."""
IDEMPOTENT_IN_FLIGHT_MAX = 5
"""Brokers remember this many batches of a producer."""


class Address(NamedTuple):
    """A broker listens at this host and port."""

    host: str
    port: int

    def __str__(self) -> str:
        return address_text(self.host, self.port)


def parse_addresses(servers: BootstrapServers) -> tuple[Address, ...]:
    """Parse ``"a:9092,b"`` or ``["a:9092", "[::1]:9093"]``; the port defaults to 9092.

    A text may be a URL, see ``bootstrap_url``.
    """
    parts = split_url(servers)[0].split(",") if isinstance(servers, str) else list(servers)
    addresses = [_parse_address(part.strip()) for part in parts if part.strip()]
    if not addresses:
        raise ConfigurationError(
            f"bootstrap_servers={servers!r}: name at least one broker, as host:port"
        )
    return tuple(dict.fromkeys(addresses))


def _parse_address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    if text.startswith("["):
        bracketed, closed, rest = text[1:].partition("]")
        host, port = (bracketed, rest.removeprefix(":")) if closed else ("", "")
    elif ":" not in text:
        host, port = text, ""
    port = port or str(DEFAULT_PORT)
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigurationError(
            f"bootstrap_servers: {text!r} is not host:port with a port of 1 to 65535"
        )
    try:
        host.encode("idna")
    except UnicodeError as error:
        raise ConfigurationError(
            f"bootstrap_servers: {text!r:.100} is not a host name: {error}"
        ) from None
    return Address(host, int(port))


_DURATION = re.compile(
    r"by_duration:P(?:(\d{1,6})D)?"
    r"(?:T(?:(\d{1,6})H)?(?:(\d{1,6})M)?(?:(\d{1,9}(?:\.\d{1,9})?)S)?)?",
    re.ASCII,
)


def parse_reset(policy: ResetOption) -> tuple[str, int]:
    """Return "earliest", "latest", "none" or "by_duration", and the duration in milliseconds."""
    if policy in ("earliest", "latest", "none"):
        return str(policy), 0
    if policy == "error":
        return "none", 0
    span: timedelta | None = None
    if isinstance(policy, timedelta):
        span = policy
    elif found := _DURATION.fullmatch(str(policy)):
        days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
        if any(found.groups()):
            span = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    if span is None or span < timedelta(0):
        raise ConfigurationError(
            f"auto_offset_reset={policy!r:.80}: must be one of earliest, latest, none, or how far"
            ' to go back, as a timedelta or like "by_duration:PT1H30M"'
        )
    return "by_duration", int(span.total_seconds() * 1000)


def take(options: type[T], parameters: Mapping[str, Any]) -> T:
    """Make ``options`` from those of a constructor's ``parameters`` that are fields of it."""
    names = [field.name for field in fields(options)]  # type: ignore[arg-type]
    return options(**{name: parameters[name] for name in names if name in parameters})


def spread(options: Any) -> dict[str, Any]:
    """Return options by name, as keywords for whoever takes them; their values stay as they are."""
    return {field.name: getattr(options, field.name) for field in fields(options)}


def at_least(option: str, value: int, low: int, high: int | None = None) -> None:
    """Raise ConfigurationError unless the option is an integer from ``low`` (to ``high``) on."""
    if type(value) is not int or value < low or (high is not None and value > high):
        allowed = f"an integer from {low}" + (f" to {high}" if high is not None else " on")
        raise ConfigurationError(f"{option}={value!r}: must be {allowed}")


def _one_of(option: str, value: object, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ConfigurationError(f"{option}={value!r}: must be one of {', '.join(allowed)}")


def check_transactional_id(name: object) -> None:
    """Raise ConfigurationError unless ``name`` is a valid transactional id, or None."""
    if name is None:
        return
    if not isinstance(name, str) or not 0 < len(name) <= limits.NAME_CHARS_MAX:
        raise ConfigurationError(
            f"transactional_id={name!r:.80}: must have 1 to {limits.NAME_CHARS_MAX} characters"
        )
    if name.startswith("__"):
        raise ConfigurationError(
            f"transactional_id={name!r}: names that begin with two underscores are reserved"
        )


def check_shared(transactional_id: object, tag: object, timeout_ms: int) -> None:
    """Raise ConfigurationError unless a shared transaction may have these values."""
    if not isinstance(transactional_id, str):
        raise ConfigurationError(f"transactional_id={transactional_id!r:.80}: must be text")
    check_transactional_id(transactional_id)
    if type(tag) is not int or not 0 <= tag < 2**63:
        raise ConfigurationError(f"tag={tag!r:.80}: must be an integer from 0 on")
    at_least("timeout_ms", timeout_ms, 1, 2**31 - 1)


def _check_security(security: object, of_url: Security | None) -> None:
    if security is None:
        return
    if not isinstance(security, Security):
        kind = type(security).__name__
        raise ConfigurationError(f"security: must be an oncelog.Security, not {kind}")
    if of_url is not None:
        raise ConfigurationError(
            "bootstrap_servers is a URL that says how to connect, and so does security: say it once"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """Every client connects to a cluster with these options."""

    bootstrap_servers: BootstrapServers
    client_id: str = defaults.CLIENT_ID
    request_timeout_ms: int = defaults.REQUEST_TIMEOUT_MS
    """A request that stays unanswered for this long costs its connection."""
    connect_timeout_ms: int = defaults.CONNECT_TIMEOUT_MS
    """Connecting and shaking hands together may take this long."""
    metadata_max_age_ms: int = defaults.METADATA_MAX_AGE_MS
    retry_backoff_ms: int = defaults.RETRY_BACKOFF_MS
    """The first pause between attempts is this long; each further one is longer, with jitter."""
    retry_backoff_max_ms: int = defaults.RETRY_BACKOFF_MAX_MS
    max_block_ms: int = defaults.MAX_BLOCK_MS
    """Calls without another deadline wait this long for metadata, or for room in the buffer."""
    security: Security | None = None
    """How connections are secured, unless ``bootstrap_servers`` is a URL that says it."""

    def __post_init__(self) -> None:
        parse_addresses(self.bootstrap_servers)
        _check_security(self.security, self._security_of_url)
        name = self.client_id
        if not 0 < len(name) <= limits.NAME_CHARS_MAX or not name.isprintable():
            raise ConfigurationError(
                f"client_id={name!r}: must have 1 to {limits.NAME_CHARS_MAX} printable characters"
            )
        for option in ("request_timeout_ms", "connect_timeout_ms", "metadata_max_age_ms"):
            at_least(option, getattr(self, option), 1)
        at_least("retry_backoff_ms", self.retry_backoff_ms, 1)
        at_least("retry_backoff_max_ms", self.retry_backoff_max_ms, self.retry_backoff_ms)
        at_least("max_block_ms", self.max_block_ms, 0)

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Return ``bootstrap_servers`` as parsed addresses."""
        return parse_addresses(self.bootstrap_servers)

    @property
    def chosen_security(self) -> Security | None:
        """Return how connections are secured; None: they are not."""
        return self.security or self._security_of_url

    @property
    def _security_of_url(self) -> Security | None:
        servers = self.bootstrap_servers
        return split_url(servers)[1] if isinstance(servers, str) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions:
    """These options say how records are gathered, sent and tried again."""

    acks: AcksOption = defaults.ACKS
    compression_type: CompressionOption = defaults.COMPRESSION_TYPE
    compression_level: int | None = None
    linger_ms: float = defaults.LINGER_MS
    """A batch's first record waits this long for company; 0 sends in the loop's next round."""
    batch_size: int = defaults.BATCH_SIZE
    """A batch is closed after this many bytes of records, before compression."""
    buffer_memory: int = defaults.BUFFER_MEMORY
    """This many bytes of unacknowledged records are held here before sends wait for room."""
    enable_idempotence: bool | None = None
    """No retry makes a duplicate or changes the order; None: if no option forbids it (KIP-679)."""
    transactional_id: str | None = None
    """With an id the producer sends in transactions only; the last one with an id counts."""
    transaction_timeout_ms: int = defaults.TRANSACTION_TIMEOUT_MS
    """The coordinator aborts a transaction after this time; brokers allow 15 minutes at most."""
    max_in_flight_requests_per_connection: int = defaults.MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION
    max_request_size: int = defaults.MAX_REQUEST_SIZE
    """A Produce request has at most this many bytes, and so has one record with its overhead."""
    delivery_timeout_ms: int = defaults.DELIVERY_TIMEOUT_MS
    """A batch fails that is not acknowledged this long after its first record, retries included."""

    def __post_init__(self) -> None:
        if self.acks not in ("all", "0", "1", -1, 0, 1) or isinstance(self.acks, bool):
            raise ConfigurationError(f'acks={self.acks!r}: must be "all", 1 or 0')
        _one_of("compression_type", self.compression_type, ("none", "gzip", "lz4", "zstd"))
        compression.require(compression.Codec[self.compression_type.upper()])
        if isinstance(self.linger_ms, bool) or not 0 <= self.linger_ms <= 3_600_000:
            raise ConfigurationError(f"linger_ms={self.linger_ms!r}: must be from 0 to 3600000")
        at_least("batch_size", self.batch_size, 1, limits.BATCH_BYTES_MAX)
        at_least("buffer_memory", self.buffer_memory, self.batch_size)
        at_least(
            "max_in_flight_requests_per_connection",
            self.max_in_flight_requests_per_connection,
            1,
            limits.IN_FLIGHT_REQUESTS_MAX,
        )
        at_least("max_request_size", self.max_request_size, 1024, limits.BATCH_BYTES_MAX)
        at_least("delivery_timeout_ms", self.delivery_timeout_ms, 1)
        if self.enable_idempotence not in (None, True, False):
            raise ConfigurationError(
                f"enable_idempotence={self.enable_idempotence!r}: must be True, False or None"
            )
        if self.enable_idempotence and self.against_idempotence:
            raise ConfigurationError(
                f"enable_idempotence=True cannot be had with {self.against_idempotence}: brokers"
                f' know five batches of a producer again, and acknowledge them with acks="all"'
            )
        check_transactional_id(self.transactional_id)
        at_least("transaction_timeout_ms", self.transaction_timeout_ms, 1, 2**31 - 1)
        if self.transactional_id is not None and not self.idempotent:
            against = self.against_idempotence or "enable_idempotence=False"
            raise ConfigurationError(
                f"transactional_id={self.transactional_id!r} cannot be had with {against}:"
                " transactions need idempotence"
            )

    @property
    def idempotent(self) -> bool:
        """Return whether batches carry sequence numbers."""
        return self.enable_idempotence is not False and not self.against_idempotence

    @property
    def against_idempotence(self) -> str:
        """Return the option that forbids idempotence; "" when none does."""
        if self.acks_code is not Acks.ALL:
            return f"acks={self.acks!r}"
        if self.max_in_flight_requests_per_connection > IDEMPOTENT_IN_FLIGHT_MAX:
            count = self.max_in_flight_requests_per_connection
            return f"max_in_flight_requests_per_connection={count}"
        return ""

    @property
    def acks_code(self) -> Acks:
        """Return ``acks`` as the number on the wire."""
        return Acks.ALL if self.acks == "all" else Acks(int(self.acks))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions:
    """These options say how records are fetched."""

    auto_offset_reset: ResetOption = defaults.AUTO_OFFSET_RESET
    """Reading begins here without a position, or with one that is out of range."""
    fetch_min_bytes: int = defaults.FETCH_MIN_BYTES
    fetch_max_wait_ms: int = defaults.FETCH_MAX_WAIT_MS
    fetch_max_bytes: int = defaults.FETCH_MAX_BYTES
    """One answer of a leader has this many bytes; twice as many are held in advance."""
    max_partition_fetch_bytes: int = defaults.MAX_PARTITION_FETCH_BYTES
    check_crcs: bool = defaults.CHECK_CRCS
    corrupt_batches: CorruptBatchesOption = defaults.CORRUPT_BATCHES
    """A batch that is corrupt also when asked for again is an error, or is left out and counted."""
    isolation_level: IsolationOption = defaults.ISOLATION_LEVEL
    """"read_committed" leaves out transactions that are open or aborted (KIP-98)."""
    max_poll_records: int = defaults.MAX_POLL_RECORDS
    """One ``getmany`` hands out this many records unless told otherwise."""

    def __post_init__(self) -> None:
        parse_reset(self.auto_offset_reset)
        _one_of("corrupt_batches", self.corrupt_batches, ("raise", "skip"))
        _one_of("isolation_level", self.isolation_level, ("read_uncommitted", "read_committed"))
        at_least("fetch_min_bytes", self.fetch_min_bytes, 0, limits.FETCH_BYTES_MAX)
        at_least("fetch_max_wait_ms", self.fetch_max_wait_ms, 0, limits.FETCH_WAIT_MS_MAX)
        at_least("fetch_max_bytes", self.fetch_max_bytes, 1, limits.FETCH_BYTES_MAX)
        limit = limits.FETCH_BYTES_MAX
        at_least("max_partition_fetch_bytes", self.max_partition_fetch_bytes, 1, limit)
        at_least("max_poll_records", self.max_poll_records, 1)

    @property
    def isolation_code(self) -> IsolationLevel:
        """Return ``isolation_level`` as the number on the wire."""
        return IsolationLevel[self.isolation_level.upper()]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions:
    """These options say how a consumer takes part in a group. Without ``group_id`` none matters."""

    group_id: str | None = None
    group_instance_id: str | None = None
    """A member with an id is static: it may restart without a rebalance (KIP-345)."""
    enable_auto_commit: bool = defaults.ENABLE_AUTO_COMMIT
    auto_commit_interval_ms: int = defaults.AUTO_COMMIT_INTERVAL_MS
    session_timeout_ms: int = defaults.SESSION_TIMEOUT_MS
    """The member counts as dead after this time without a heartbeat."""
    heartbeat_interval_ms: int = defaults.HEARTBEAT_INTERVAL_MS
    max_poll_interval_ms: int = defaults.MAX_POLL_INTERVAL_MS
    """The application may take this long between two polls; the group waits as long for a join."""
    partition_assignment_strategy: Sequence[Any] = defaults.PARTITION_ASSIGNMENT_STRATEGY
    """These are names, or objects that fulfil Assignor; the group uses the first that all have."""

    def __post_init__(self) -> None:
        for option in ("group_id", "group_instance_id"):
            name = getattr(self, option)
            if name is not None and not (
                isinstance(name, str) and 0 < len(name) <= GROUP_ID_CHARS_MAX
            ):
                raise ConfigurationError(
                    f"{option}={name!r:.80}: must have 1 to {GROUP_ID_CHARS_MAX} characters"
                )
        if self.group_instance_id is not None and self.group_id is None:
            raise ConfigurationError(
                f"group_instance_id={self.group_instance_id!r}: needs a group_id too"
            )
        at_least("auto_commit_interval_ms", self.auto_commit_interval_ms, 1)
        at_least("session_timeout_ms", self.session_timeout_ms, 10, 2**31 - 1)
        at_least("max_poll_interval_ms", self.max_poll_interval_ms, 1, 2**31 - 1)
        at_least(
            "heartbeat_interval_ms", self.heartbeat_interval_ms, 1, self.session_timeout_ms // 2
        )

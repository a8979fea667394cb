"""The settings of one broker: typed, checked as a whole before anything is created.

Names are Kafka's in snake case. Sources, strongest first: arguments, environment (``ONCELOG_`` and
the name in capitals), TOML file, default. Every mistake becomes a :class:`ConfigError` that names
the key, the file and the remedy; ``__main__`` turns it into exit code 2."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from oncelog_broker.log.flusher import INLINE_BYTES_MAX
from oncelog_protocol import limits
from oncelog_protocol.errors import InvalidConfigError
from oncelog_protocol.topic_config import TOPIC_SETTINGS, parse_topic_config

ENV_PREFIX = "ONCELOG_"
UNSPECIFIED_HOSTS = ("", "0.0.0.0", "::", "[::]", "*")


class ConfigError(Exception):
    """The broker cannot run with these settings: key, file and remedy in one message."""

    def __init__(self, key: str, problem: str, remedy: str, source: str = "") -> None:
        self.key = key
        self.problem = problem
        self.remedy = remedy
        self.source = source
        where = f"{source}: " if source else ""
        named = f"{key}: " if key else ""
        super().__init__(f"{where}{named}{problem}. {remedy}")


class ListenerConfig(BaseModel):
    """One socket, and the address under which peers find it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")
    host: str = "127.0.0.1"
    port: int = Field(default=0, ge=0, le=65535)
    """0 takes a free port."""
    advertised_host: str | None = None
    """Default: ``host``."""
    advertised_port: int | None = Field(default=None, ge=1, le=65535)
    """Default: the port that was taken."""

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
    """Every setting of a broker. Units are in the names; sizes in bytes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    broker_id: int = Field(ge=0, le=2**31 - 1)
    rack: str | None = Field(default=None, max_length=limits.NAME_CHARS_MAX)
    log_dirs: list[str] = Field(min_length=1)
    listeners: list[ListenerConfig] = Field(
        default=[ListenerConfig(name="internal"), ListenerConfig(name="external")], min_length=1
    )
    inter_broker_listener: str = "internal"

    zookeeper_connect: str = Field(default="", max_length=4096)
    """host:port[,host:port...][/chroot]"""
    zookeeper_session_timeout_ms: int = Field(default=6000, ge=100)
    zookeeper_connection_timeout_ms: int = Field(default=15_000, ge=100)

    flush: Literal["commit", "interval"] = "commit"
    """commit: an offset counts once it is synced. interval: at once, synced every
    flush_interval_ms."""
    flush_interval_ms: int = Field(default=1000, ge=1)
    flush_inline_bytes_max: int = Field(default=INLINE_BYTES_MAX, ge=0)
    """Rounds of at most so many bytes are synced on the event loop while the disk is quick; 0: all
    of them in a worker thread."""
    log_retention_check_interval_ms: int = Field(default=300_000, ge=10)
    producer_id_expiration_ms: int = Field(default=86_400_000, ge=1)
    """How long a partition remembers a producer that no longer writes to it; a retry that comes
    later than that is a duplicate. Default: a day."""
    log_checkpoint_interval_ms: int = Field(default=5_000, ge=10)
    log_scrub_interval_ms: int = Field(default=604_800_000, ge=0)
    """All that was synced is read again and held against its checksums once in this time, spread
    over it: rot is found while other replicas have what it took. 0: never. Default: 7 days."""
    log_scrub_bytes_per_second: int = Field(default=16 * 1024 * 1024, ge=1024)
    """Of one log directory: the most that is read so, should the interval ask for more."""
    log_cleaner_enable: bool = True
    """Whether topics with cleanup_policy=compact are compacted."""
    log_cleaner_backoff_ms: int = Field(default=15_000, ge=10)
    """How long the cleaner rests when nothing is to be compacted."""
    log_cleaner_dedupe_buffer_bytes: int = Field(default=64 * 1024 * 1024, ge=64 * 1024)
    """Memory for the keys of one pass; what does not fit is compacted in the next."""
    log_cleaner_io_max_bytes_per_second: int = Field(default=64 * 1024 * 1024, ge=1024)
    """Read and written together, of all log directories."""
    log_cleaner_cpu_percent: int = Field(default=20, ge=1, le=100)
    """Of one core; the cleaner works in slices of a few milliseconds and rests in between."""
    topic_defaults: dict[str, str | int | bool] = Field(default={})
    """Topic settings (retention_ms, segment_bytes, ...) for topics that do not override them."""

    default_replication_factor: int = Field(default=1, ge=1, le=32767)
    num_partitions: int = Field(default=1, ge=1, le=limits.PARTITION_COUNT_MAX)
    min_insync_replicas: int = Field(default=1, ge=1, le=32767)
    auto_create_topics_enable: bool = False
    unclean_leader_election_enable: bool = False
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_ms: int = Field(default=10_000, ge=50)

    replica_lag_time_max_ms: int = Field(default=10_000, ge=50)
    replica_fetch_wait_max_ms: int = Field(default=500, ge=1, le=limits.FETCH_WAIT_MS_MAX)
    replica_fetch_min_bytes: int = Field(default=1, ge=1)
    replica_fetch_response_max_bytes: int = Field(
        default=8 * 1024 * 1024, ge=1024, le=limits.FETCH_BYTES_MAX
    )
    replica_fetch_max_bytes: int = Field(
        default=4 * 1024 * 1024, ge=1024, le=limits.FETCH_BYTES_MAX
    )
    """For one partition in one response."""

    group_min_session_timeout_ms: int = Field(default=1_000, ge=1)
    group_max_session_timeout_ms: int = Field(default=1_800_000, ge=1)
    """Bounds of what a member of a group may ask for as its session time-out."""
    group_initial_rebalance_delay_ms: int = Field(default=500, ge=0)
    """How long an empty group waits for more members after the first one."""
    group_max_size: int = Field(default=10_000, ge=1)
    """Members of one group."""
    offsets_topic_num_partitions: int = Field(default=50, ge=1, le=100)
    """Of the internal topic of groups and their offsets, when it is made; it cannot grow later. At
    most as many as the controller makes in one write: brokers must hear of all of them at once."""
    offsets_topic_replication_factor: int = Field(default=3, ge=1, le=32767)
    """Of the same; with fewer brokers it gets as many replicas as there are brokers."""
    offsets_topic_segment_bytes: int = Field(default=100 * 1024 * 1024, ge=1024)
    """Of the same: what a coordinator reads to begin with is kept small by compaction, which never
    touches the last segment."""
    offsets_retention_ms: int = Field(default=604_800_000, ge=1)
    """How long offsets are kept after the last member has left the group, or, of groups without
    members, after the last commit."""
    offsets_retention_check_interval_ms: int = Field(default=600_000, ge=10)
    offset_metadata_max_bytes: int = Field(default=4_096, ge=0, le=64 * 1024)
    """The text that a member may commit with an offset."""
    offset_commit_timeout_ms: int = Field(default=5_000, ge=1)
    """How long the coordinator of a group waits for the replicas of what it has written."""

    transaction_state_log_num_partitions: int = Field(default=50, ge=1, le=100)
    """Of the internal topic of transactional ids, when it is made; see
    offsets_topic_num_partitions."""
    transaction_state_log_replication_factor: int = Field(default=3, ge=1, le=32767)
    """Of the same; with fewer brokers it gets as many replicas as there are brokers."""
    transaction_state_log_segment_bytes: int = Field(default=100 * 1024 * 1024, ge=1024)
    """Of the same: what a coordinator reads to begin with is kept small by compaction."""
    transaction_max_timeout_ms: int = Field(default=900_000, ge=1)
    """The longest time that a producer may ask for, after which its open transaction is aborted."""
    transactional_id_expiration_ms: int = Field(default=604_800_000, ge=1)
    """How long a transactional id without an open transaction is kept after it was used last."""

    controlled_shutdown_enable: bool = True
    controlled_shutdown_timeout_ms: int = Field(default=10_000, ge=0)

    max_connections: int = Field(default=2000, ge=1)
    """Of each listener."""
    max_connections_per_ip: int = Field(default=1000, ge=1)
    connections_max_idle_ms: int = Field(default=600_000, ge=0)
    connection_handshake_timeout_ms: int = Field(default=5_000, ge=10)
    request_frame_timeout_ms: int = Field(default=10_000, ge=10)
    response_stall_timeout_ms: int = Field(default=30_000, ge=10)
    connection_unsent_max_bytes: int = Field(default=16 * 1024 * 1024, ge=64 * 1024)
    queued_max_bytes: int = Field(default=256 * 1024 * 1024, ge=1024 * 1024)
    """Bytes of unfinished requests and unsent responses that all clients together may hold."""
    max_in_flight_requests: int = Field(default=limits.IN_FLIGHT_REQUESTS_MAX, ge=1, le=10_000)

    log_format: Literal["auto", "text", "json"] = "auto"
    """auto: text for a person at a terminal, JSON lines otherwise."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"

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
        names = [listener.name for listener in self.listeners]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"listeners: two are named {name!r}: give each its own name")
        taken: dict[tuple[str, int], str] = {}
        for listener in self.listeners:
            address = (listener.host, listener.port)
            if listener.port and address in taken:
                raise ValueError(
                    f"listeners: {taken[address]!r} and {listener.name!r} both take "
                    f"{listener.host}:{listener.port}: give each its own port"
                )
            taken[address] = listener.name
        if self.inter_broker_listener not in names:
            raise ValueError(
                f"inter_broker_listener: {self.inter_broker_listener!r} is none of the listeners "
                f"{names}: name one of them"
            )
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise ValueError(
                "group_min_session_timeout_ms: it is above group_max_session_timeout_ms: lower it"
            )
        self._check_topic_defaults()
        return self

    def _check_topic_defaults(self) -> None:
        try:
            parse_topic_config(self.topic_default_texts())
        except InvalidConfigError as exc:
            raise ValueError(f"topic_defaults: {exc}") from exc

    def topic_default_texts(self) -> dict[str, str]:
        """Defaults of topic settings as text, with those that are settings of their own."""
        texts = {k: _text(v) for k, v in self.topic_defaults.items()}
        texts.setdefault("min_insync_replicas", str(self.min_insync_replicas))
        texts.setdefault(
            "unclean_leader_election_enable", _text(self.unclean_leader_election_enable)
        )
        if "flush" in TOPIC_SETTINGS:
            texts.setdefault("flush", self.flush)
        return texts

    def listener(self, name: str) -> ListenerConfig:
        """The listener of this name."""
        return next(listener for listener in self.listeners if listener.name == name)


def load_config(path: str | None, **overrides: Any) -> BrokerConfig:
    """Settings from arguments, environment and the TOML file at ``path``.

    :raises ConfigError: the file cannot be read, or a setting does not hold.
    """
    from_file = _read_toml(path) if path is not None else {}
    source = path or "settings"
    _check_types(from_file, source)

    class Sources(BaseSettings, BrokerConfig):
        """Where settings come from, strongest first."""

        model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, extra="forbid", frozen=True)

        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return (init_settings, env_settings, _Given(settings_cls, from_file))

    try:
        loaded = Sources(**overrides)
        return BrokerConfig.model_validate(loaded.model_dump())
    except ValidationError as exc:
        raise _config_error(exc, source) from exc
    except ValueError as exc:
        raise ConfigError("environment", str(exc), f"Correct the {ENV_PREFIX}... variable") from exc


class _Given(PydanticBaseSettingsSource):
    """Values that are there already."""

    def __init__(self, settings_cls: type[BaseSettings], values: dict[str, Any]) -> None:
        super().__init__(settings_cls)
        self._values = values

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        return self._values.get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        return self._values


def _read_toml(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except FileNotFoundError as exc:
        raise ConfigError(
            "", "there is no such configuration file", "Check the path given by --config", path
        ) from exc
    except OSError as exc:
        remedy = "Make it a file that this user may read"
        raise ConfigError("", f"cannot be read ({exc.strerror})", remedy, path) from exc
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise ConfigError("", f"is not TOML: {exc}", "Correct the line", path) from exc


def _check_types(values: Mapping[str, Any], source: str) -> None:
    """TOML has types, so what stands in a file must have the right one: "1" is not 1."""
    try:
        text = json.dumps(values)
    except TypeError as exc:
        remedy = "Use strings and numbers; no setting is a date"
        raise ConfigError("", str(exc), remedy, source) from exc
    try:
        BrokerConfig.model_validate_json(text, strict=True)
    except ValidationError as exc:
        missing = ("missing",)
        if any(e["type"] not in missing for e in exc.errors()):
            raise _config_error(exc, source, skip=missing) from exc


def _config_error(exc: ValidationError, source: str, skip: tuple[str, ...] = ()) -> ConfigError:
    """The first mistake as a message; the others are counted."""
    errors = [e for e in exc.errors() if e["type"] not in skip]
    first = errors[0]
    key = ".".join(str(part) for part in first["loc"])
    more = f" (and {len(errors) - 1} more mistakes)" if len(errors) > 1 else ""
    kind = first["type"]
    if kind == "extra_forbidden":
        return ConfigError(key, "there is no such setting" + more, _did_you_mean(key), source)
    if kind == "missing":
        return ConfigError(key, "is required" + more, f"Add {key} = ... to the file", source)
    message = first["msg"].removeprefix("Value error, ")
    if kind == "value_error":
        named, colon, rest = message.partition(": ")
        if colon and named in BrokerConfig.model_fields:
            key, message = key or named, rest
        problem, _, remedy = message.rpartition(": ")
        if problem:
            return ConfigError(key, problem + more, remedy[0].upper() + remedy[1:], source)
        return ConfigError(key, message + more, "Correct the value", source)
    given = f", not {first['input']!r}"[:80]
    return ConfigError(
        key, message[0].lower() + message[1:] + given + more, "Correct the value", source
    )


def _did_you_mean(key: str) -> str:
    known = list(BrokerConfig.model_fields) + list(ListenerConfig.model_fields)
    close = difflib.get_close_matches(key.rpartition(".")[2], known, n=1)
    return f"Did you mean {close[0]!r}?" if close else "Remove it"


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

"""The sink's options are parsed and checked here. Pure.

Rules
-----
* Option names are case-insensitive, as everywhere in Spark. One that nobody knows is an error that
  names the nearest known one: a misspelt option must not silently be none.
* ``oncelog.<name>`` (or ``kafka.<name>``) goes to the producer, under Kafka's dotted name. Options
  that would break what the sink promises are refused, with the right one named.
* Spark's own options for a query come along; ``checkpointLocation`` says which query it is.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark_oncelog.option_values import parse_bool, parse_count
from pyspark_oncelog.options import NAMES, PASSED, OptionError, find_bootstrap
from pyspark_oncelog.security_options import SecurityOptions, is_of_security, parse_security

EXACTLY_ONCE = "exactly-once"
AT_LEAST_ONCE = "at-least-once"
PARTITIONERS = ("default", "murmur2", "round_robin", "sticky")
TRANSACTION_TIMEOUT_MS = 900_000
"""The longest time that brokers allow unless told otherwise: a micro-batch must end within it."""
SINK_ID_PATTERN = re.compile(r"[^\s\x00-\x1f]{1,900}")

_OWN = {
    "topic": "topic",
    "sinkid": "sinkId",
    "deliveryguarantee": "deliveryGuarantee",
    "partitioner": "partitioner",
    "includeheaders": "includeHeaders",
    "transactiontimeoutms": "transactionTimeoutMs",
}
_OTHERS = frozenset({"checkpointlocation", "queryname", *NAMES})
"""Spark's, and the source's: a table that is read and written has the options of both."""

_BOOTSTRAP = ("bootstrap.servers", "bootstrapservers", "bootstrap_servers")

_CLIENT: dict[str, type] = {
    "batch.size": int,
    "buffer.memory": int,
    "client.id": str,
    "compression.type": str,
    "compression.level": int,
    "connect.timeout.ms": int,
    "delivery.timeout.ms": int,
    "linger.ms": float,
    "max.block.ms": int,
    "max.in.flight.requests.per.connection": int,
    "max.request.size": int,
    "request.timeout.ms": int,
}
_REFUSED = {
    "acks": "the sink always waits for all in-sync replicas",
    "enable.idempotence": "the sink is always idempotent",
    "transactional.id": "the query's id is it; of a foreachBatch the option sinkId is",
    "transaction.timeout.ms": "use the option transactionTimeoutMs",
    "partitioner.class": "use the option partitioner: " + ", ".join(PARTITIONERS),
    "key.serializer": "give key as string or binary",
    "value.serializer": "give value as string or binary",
    "interceptor.classes": "there are none: change the rows before they are written",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The options say where and how rows are written. They may be pickled."""

    bootstrap_servers: str
    security: SecurityOptions | None = None
    """How connections are secured, unless the addresses are a URL that says it."""
    topic: str | None = None
    """The topic of all rows; None: a column says it."""
    sink_id: str | None = None
    """The id tells two sinks of one query apart, and makes a batch write in foreachBatch exactly
    once."""
    exactly_once: bool = True
    partitioner: str = "default"
    include_headers: bool = True
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    checkpoint: str | None = None
    """The query keeps its state here, as far as its options say; None: they do not."""
    client: Mapping[str, Any] = field(default_factory=dict)
    """Options of the producer, by the SDK's names."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SinkOptions:
        """Parse the options of ``df.write`` or ``df.writeStream``.

        :raises OptionError: one is missing, unknown or wrong.
        """
        given = {name.lower(): value for name, value in options.items()}
        if not given:
            raise OptionError(
                "there are no options. Of SQL's INSERT: Spark hands it those of a temporary view,"
                " but none of a table; INSERT INTO t WITH (`oncelog.bootstrap.servers`='host:port',"
                " topic='t') gives some"
            )
        servers = find_bootstrap(given)
        known = {name: given[name] for name in given if name in _OWN}
        for name in given:
            if name not in _OWN and name not in _OTHERS and not _is_shared(name):
                _refuse_unknown(name)
        return cls(
            bootstrap_servers=servers,
            security=parse_security(given, servers),
            topic=known.get("topic"),
            sink_id=_sink_id(known),
            exactly_once=_exactly_once(known),
            partitioner=_one_of(known, "partitioner", PARTITIONERS),
            include_headers=parse_bool("includeHeaders", known.get("includeheaders", "true")),
            transaction_timeout_ms=parse_count(
                "transactionTimeoutMs",
                known.get("transactiontimeoutms", str(TRANSACTION_TIMEOUT_MS)),
                1,
                2**31 - 1,
            ),
            checkpoint=given.get("checkpointlocation"),
            client=_client_options(given),
        )


def _is_shared(name: str) -> bool:
    """Return whether an option says where the brokers are, or how to connect to them."""
    return name.endswith(_BOOTSTRAP) or is_of_security(name)


def _client_options(given: Mapping[str, str]) -> dict[str, Any]:
    client: dict[str, Any] = {}
    for name, value in given.items():
        short = _client_name(name)
        if short is None or short not in _CLIENT:
            continue
        try:
            number: Any = _CLIENT[short](value)
        except ValueError:
            raise OptionError(f"{name}={value!r}: must be a number") from None
        snake = short.replace(".", "_")
        if client.setdefault(snake, number) != number:
            raise OptionError(f"{name} is given twice, with different values")
    return client


def _client_name(name: str) -> str | None:
    """Return ``batch.size`` for ``oncelog.batch.size``; None for what is not for the producer."""
    for prefix in ("oncelog.", "kafka."):
        if name.startswith(prefix):
            return name.removeprefix(prefix).replace("_", ".")
    return None


def _refuse_unknown(name: str) -> None:
    short = _client_name(name)
    if short in _CLIENT or short in PASSED:
        return
    if short in _REFUSED:
        raise OptionError(f"{name} cannot be set: {_REFUSED[short]}")
    if name == "path":
        raise OptionError('a topic is no path: save() without one, and .option("topic", ...)')
    if short is not None:
        prefix = name[: len(name) - len(short)]
        every = [prefix + known for known in _CLIENT]
    else:
        every = list(_OWN)
    near = difflib.get_close_matches(name, every, n=1)
    hint = f"; did you mean {_OWN.get(near[0], near[0])}?" if near else ""
    raise OptionError(
        f"the sink has no option {name!r}{hint} It has {', '.join(_OWN.values())}, and"
        f" oncelog.<name> for the producer's: {', '.join(_CLIENT)}"
    )


def _sink_id(known: Mapping[str, str]) -> str | None:
    sink_id = known.get("sinkid")
    if sink_id is not None and not SINK_ID_PATTERN.fullmatch(sink_id):
        raise OptionError(
            f"option sinkId={sink_id!r:.80}: must be 1 to 900 characters without white space"
        )
    return sink_id


def _exactly_once(known: Mapping[str, str]) -> bool:
    guarantees = (EXACTLY_ONCE, AT_LEAST_ONCE)
    exactly_once = _one_of(known, "deliveryguarantee", guarantees) == EXACTLY_ONCE
    if not exactly_once and "sinkid" in known:
        raise OptionError(
            f"sinkId is for {EXACTLY_ONCE} only: with deliveryGuarantee={AT_LEAST_ONCE} nothing"
            " tells a repetition"
        )
    return exactly_once


def _one_of(known: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    """The first one allowed is the default."""
    value = known.get(name, allowed[0]).strip().lower()
    for choice in allowed:
        if value.replace("-", "_") == choice.replace("-", "_"):
            return choice
    raise OptionError(f"{_OWN[name]}={known[name]!r}: must be {' or '.join(allowed)}")

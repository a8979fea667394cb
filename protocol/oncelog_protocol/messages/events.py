"""DescribeEvents tells what has happened at one broker lately, by lines of its log."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.schema import Int16, Int32, Int64, Name, Text, message


@message
class EventField:
    """It is one field of an event; ``value`` is JSON."""

    name: Name
    value: Text


@message
class BrokerEvent:
    """It is one log line: ``timestamp_ms`` by the broker's wall clock, ``sequence`` without gaps
    from 0 on in each life of the broker, ``level`` as in the log ("info", "warning", "error",
    "critical")."""

    sequence: Int64
    timestamp_ms: Int64
    level: Name
    name: Name
    fields: list[EventField] = field(default_factory=list)


@message
class DescribeEventsResponse:
    """Its error is CLUSTER_AUTHORIZATION_FAILED. ``started_ms`` names the life of the broker;
    ``first_sequence`` is the oldest event that it still has, of whatever name, and
    ``next_sequence`` is where to go on. ``more``: ask again at once, for there are others."""

    error_code: Int16 = 0
    error_message: Text | None = None
    started_ms: Int64 = -1
    first_sequence: Int64 = 0
    next_sequence: Int64 = 0
    more: bool = False
    events: list[BrokerEvent] = field(default_factory=list)


@message
class DescribeEventsRequest(Request):
    """It asks one broker for its events from ``from_sequence`` on in the life ``started_ms``; if
    that is another one than the broker's, for all of them. ``names`` nil asks for every name."""

    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_EVENTS
    response: ClassVar[type] = DescribeEventsResponse

    started_ms: Int64 = -1
    from_sequence: Int64 = 0
    names: list[Name] | None = None
    count_max: Int32 = 500

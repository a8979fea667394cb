"""A broker tells the controller what it holds by BrokerReport, v0: disks, replicas, copies.

The controller keeps it in memory for as long as it is controller, and never stores it. So it must
not be needed to be right: it is for people, and for plans.

A report is one request or several, its *pages*, which a broker sends one after the other. Each has
a number, and names the one that it continues. A report that begins anew (``continues`` -1) tells of
all replicas. One that continues what was told before tells only of those that have changed. The
directories, copies and warm partitions of the last page are all that there are.
"""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.schema import Int16, Int32, Int64, Name, Text, message

UNKNOWN = -1
"""It stands for a figure that nobody knows."""

GONE = -2
"""It stands for the size of a replica that the broker does not hold any more."""

ANEW = -1
"""A page that continues no other begins a report of everything."""

COPYING = ""
"""The reason of a copy that nothing hinders."""
NO_LEADER = "no leader"
LEADER_NOT_REACHED = "leader not reached"
TRIED_AGAIN = "tried again after an error"
NO_ROOM = "no room"
OUT_OF_SERVICE = "replica out of service"


@message
class ReportedDirectory:
    """It is one log directory; ``total_bytes`` and ``free_bytes`` are those of its file system, -1
    when they are not known, as of a directory that is offline."""

    path: Text
    total_bytes: Int64
    free_bytes: Int64
    is_online: bool


@message
class ReportedTopic:
    """It has the replicas of one topic, a column for each figure; all columns are equally long.
    ``sizes`` are the bytes of the logs, -2 of one that is gone; ``in_rates`` the bytes a second
    that were appended, by clients or from the leader; ``out_rates`` those that consumers were sent,
    -1 before a broker has looked twice;
    ``directories`` the places of their directories in the report's list."""

    topic_id: Name
    partitions: list[Int32]
    sizes: list[Int64]
    in_rates: list[Int64]
    out_rates: list[Int64]
    directories: list[Int32]


@message
class ReportedCopy:
    """It is a replica here that is not in the ISR. ``donor`` is who it is fetched from, -1: nobody;
    ``offsets_left`` how far its end is from the leader's high watermark, -1: the leader has not
    told yet. How many bytes these are it does not know: the leader's report tells. ``reason`` says
    what hinders it, "" for nothing."""

    topic_id: Name
    partition: Int32
    donor: Int32
    offsets_left: Int64
    bytes_per_s: Int64
    reason: Name


@message
class ReportedWarm:
    """It lists partitions of one topic that the broker is to lead soon. It has read them for their
    coordinators already, all but the last records."""

    topic_id: Name
    partitions: list[Int32]


@message
class BrokerReportResponse:
    """Its errors are NOT_CONTROLLER, STALE_BROKER_EPOCH, INVALID_REQUEST (columns that differ in
    length, or more than 1,000 replicas, copies or warm partitions), INVALID_UPDATE_VERSION (the
    page that this one continues is not the last that was taken: begin anew)."""

    error_code: Int16 = 0


@message
class BrokerReportRequest(Request):
    """A broker tells the controller what it holds; ``last`` ends the report."""

    api_key: ClassVar[ApiKey] = ApiKey.BROKER_REPORT
    response: ClassVar[type] = BrokerReportResponse
    between_brokers: ClassVar[bool] = True
    asker_field: ClassVar[str] = "broker_id"

    broker_id: Int32
    broker_epoch: Int64
    number: Int64
    continues: Int64
    last: bool
    directories: list[ReportedDirectory] = field(default_factory=list)
    topics: list[ReportedTopic] = field(default_factory=list)
    copies: list[ReportedCopy] = field(default_factory=list)
    warm: list[ReportedWarm] = field(default_factory=list)

"""This module gives every bound of the wire, with its reason. Checked before memory is taken.

Relations between bounds are asserted at the end, at import.
"""

from __future__ import annotations

import re

FRAME_BYTES_MAX = 64 * 1024 * 1024
"""Largest frame on an authenticated connection; Kafka's socket.request.max.bytes is 100 MiB. A
fetch response of fetch.max.bytes (55 MiB there, 32 MiB here) must fit, with one batch over."""

FRAME_BYTES_MAX_UNAUTHENTICATED = 64 * 1024
"""The bound before authentication, when only ApiVersions and the handshake are legal
(CVE-2022-34917)."""

UNAUTHENTICATED_BYTES_MAX = 256 * 1024
"""All frames together that a peer may send before it is known."""

UNAUTHENTICATED_HELLOS_MAX = 2
"""So many ApiVersions are taken before authentication: the second one is in a version that the
answer to the first one offered (KIP-511)."""

HEAD_BYTES_MAX = 8 * 1024 * 1024
"""The msgpack head: a LeaderAndIsr or Metadata answer for 10,000 partitions takes about 1 MiB."""

FRAME_SIZE_BYTES = 4
FRAME_PREFIX_BYTES = 8
"""size:u32, head:u32."""

NESTING_DEPTH_MAX = 16
"""Arrays within arrays, in any message of this release; a schema refuses what is deeper."""

ARRAY_COUNT_MAX = 100_000
"""Items of one array: partitions of a request, brokers, names."""

HEAD_ARRAYS_MAX = 500_000
"""Arrays in one head: Metadata for 100,000 partitions has four each. They cost 72 bytes apiece in
memory and may be one byte on the wire."""

UNANSWERED_REQUESTS_MAX = 4096
"""Requests that a client may have sent on one connection without an answer. A broker stops reading
long before (IN_FLIGHT_REQUESTS_MAX); above this the caller has no back-pressure at all."""

NAME_CHARS_MAX = 1024
"""Client ids, host names, config keys, racks. Topic names are shorter, see TOPIC_CHARS_MAX."""

TEXT_CHARS_MAX = 64 * 1024
"""Error messages and config values."""

BLOB_BYTES_MAX = 1024 * 1024
"""Opaque bytes in a head: group metadata, assignments."""

SASL_DATA_BYTES_MAX = 16 * 1024
"""One message of a SASL mechanism. A bearer token may take some KiB; all else is far shorter."""

TOPIC_CHARS_MAX = 249
"""Kafka's bound: '<topic>-<partition>' must fit a 255-byte file name."""

TOPIC_PATTERN = re.compile(r"[a-zA-Z0-9._-]{1,249}")

PARTITION_COUNT_MAX = 10_000
"""Partitions of one topic: its znodes must be listable and one order must fit HEAD_BYTES_MAX."""

IN_FLIGHT_REQUESTS_MAX = 64
"""Requests of one connection that a broker holds unanswered before it stops reading."""

REPORT_REPLICAS_MAX = 1000
"""Replicas, and copies, in one page of a broker's report: to take one in takes the controller's
loop some milliseconds."""

ACLS_MAX = 20_000
"""ACLs of a cluster: each broker has them all in memory, in a shape that is made at each change."""

ACLS_CHARS_MAX = 1536 * 1024
"""Characters of all ACLs of a cluster: one answer lists them, and must fit HEAD_BYTES_MAX."""

ACLS_OF_REQUEST_MAX = 1000
"""Entries, or filters, of one request: checking one takes some 10 us of the controller's loop."""

ACLS_OF_ONE_PATTERN_CHARS_MAX = 64 * 1024
"""Characters of the ACLs of one pattern: they are one node, far below ZooKeeper's 1 MB."""

USERS_MAX = 10_000
"""Users of a cluster: each broker has them all in memory."""

USERS_OF_REQUEST_MAX = 250
"""Users of one request: they are written in one multi, at most some 1,200 bytes each."""

QUOTAS_MAX = 10_000
"""Quotas of a cluster: each broker has them all in memory, and takes them in one turn of its
loop."""

QUOTAS_CHARS_MAX = 1536 * 1024
"""Characters of the names of all quotas of a cluster: one answer lists them, and must fit
HEAD_BYTES_MAX."""

QUOTAS_OF_REQUEST_MAX = 200
"""Changes of quotas in one request: they are written in one multi, at most 3,000 bytes each."""

MOVES_OF_REQUEST_MAX = 10_000
"""Partitions that one request may give other replicas: their plan is kept in memory and in the
store, in nodes of 2,000 each."""

MOVE_REASON_CHARS_MAX = 1000
"""A person may say so much of a plan; it stands in the plan's node."""

BATCH_HEADER_BYTES = 61
BATCH_BYTES_MAX = 16 * 1024 * 1024
"""No topic may set max.message.bytes above this."""

BATCH_RECORD_COUNT_MAX = 1_000_000
"""Records of one batch; also what a decoder may build from one."""

DECOMPRESSED_BYTES_MAX = 64 * 1024 * 1024
DECOMPRESSED_RATIO_MAX = 1000
"""A batch may not grow past either when decompressed. zstd reaches 1:1000 only on constant
input."""

DECOMPRESSED_FREE_BYTES = 1024 * 1024
"""Up to this size any ratio goes: a small batch of equal records does compress 1:2000, and 1 MiB
harms nobody."""

HEADER_COUNT_MAX = 1024
"""Headers of one record."""

BATCH_HEADER_COUNT_MAX = 1_000_000
"""Headers of one batch, all records together: each costs about 100 bytes in a consumer's memory."""

TRANSACTIONAL_IDS_MAX = 10_000
"""Transactional ids of one partition of ``__transaction_state``: some MB in the memory of its
leader. Ids that are not used expire, shared ones only if their last tag is none or LAST_TAG."""

TXN_PARTITIONS_MAX = 10_000
"""Partitions that one producer may have in one transaction; the record of it must fit a batch."""

SHARED_TXN_WRITERS_MAX = 10_000
"""Writers of one shared transaction, attempts that failed counted: they all get their markers from
one coordinator, and all end in one batch."""

SHARED_TXN_PARTITIONS_MAX = 100_000
"""Partitions of all its writers together, each counting its own: as many markers go out at once."""

THROTTLE_MS_MAX = 30_000
"""A broker may tell a client to wait for so long; the rest of a debt comes with the next answer."""

ACK_TIMEOUT_MS_MAX = 300_000
FETCH_WAIT_MS_MAX = 60_000
FETCH_BYTES_MAX = 32 * 1024 * 1024
"""Caps on what a request may ask a broker to wait for or to gather."""


def is_legal_topic(name: str) -> bool:
    """Return whether ``name`` may be a topic by Kafka's rule: letters, digits, '.', '_' and '-'."""
    return TOPIC_PATTERN.fullmatch(name) is not None and name not in (".", "..")


assert FRAME_BYTES_MAX_UNAUTHENTICATED < HEAD_BYTES_MAX < FRAME_BYTES_MAX
assert SASL_DATA_BYTES_MAX < FRAME_BYTES_MAX_UNAUTHENTICATED < UNAUTHENTICATED_BYTES_MAX
assert BATCH_BYTES_MAX + FETCH_BYTES_MAX + HEAD_BYTES_MAX <= FRAME_BYTES_MAX
assert BATCH_BYTES_MAX <= DECOMPRESSED_BYTES_MAX
assert DECOMPRESSED_FREE_BYTES <= DECOMPRESSED_BYTES_MAX
assert HEADER_COUNT_MAX <= BATCH_HEADER_COUNT_MAX
assert IN_FLIGHT_REQUESTS_MAX <= UNANSWERED_REQUESTS_MAX
assert PARTITION_COUNT_MAX <= ARRAY_COUNT_MAX

"""Every option of a client has its default here, once: clients and their options name it."""

from __future__ import annotations

from typing import Final

_MEBIBYTE = 1024 * 1024

CLIENT_ID: Final = "oncelog"
ADMIN_CLIENT_ID: Final = "oncelog-admin"
CONSUMER_CLIENT_ID: Final = "oncelog-consumer"
PRODUCER_CLIENT_ID: Final = "oncelog-producer"
SHARED_CLIENT_ID: Final = "oncelog-shared"
WRITER_CLIENT_ID: Final = "oncelog-writer"
REQUEST_TIMEOUT_MS: Final = 30_000
CONNECT_TIMEOUT_MS: Final = 5_000
METADATA_MAX_AGE_MS: Final = 300_000
RETRY_BACKOFF_MS: Final = 8
RETRY_BACKOFF_MAX_MS: Final = 500
MAX_BLOCK_MS: Final = 60_000
SHARED_MAX_BLOCK_MS: Final = 120_000
ACKS: Final = "all"
COMPRESSION_TYPE: Final = "none"
LINGER_MS: Final = 5
BATCH_SIZE: Final = 128 * 1024
BUFFER_MEMORY: Final = 64 * _MEBIBYTE
TRANSACTION_TIMEOUT_MS: Final = 60_000
MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION: Final = 5
MAX_REQUEST_SIZE: Final = _MEBIBYTE
DELIVERY_TIMEOUT_MS: Final = 120_000
AUTO_OFFSET_RESET: Final = "latest"
FETCH_MIN_BYTES: Final = 1
FETCH_MAX_WAIT_MS: Final = 500
FETCH_MAX_BYTES: Final = 32 * _MEBIBYTE
MAX_PARTITION_FETCH_BYTES: Final = _MEBIBYTE
CHECK_CRCS: Final = True
CORRUPT_BATCHES: Final = "raise"
ISOLATION_LEVEL: Final = "read_committed"
MAX_POLL_RECORDS: Final = 500
ENABLE_AUTO_COMMIT: Final = True
AUTO_COMMIT_INTERVAL_MS: Final = 5_000
SESSION_TIMEOUT_MS: Final = 45_000
HEARTBEAT_INTERVAL_MS: Final = 3_000
MAX_POLL_INTERVAL_MS: Final = 300_000
PARTITION_ASSIGNMENT_STRATEGY: Final = ("cooperative-sticky",)

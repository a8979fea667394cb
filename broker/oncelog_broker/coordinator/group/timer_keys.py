"""Keys of the timers of one shard's groups. Pure. The length keeps names with blanks apart."""

from __future__ import annotations

EXPIRY_KEY = "expiry"
"""The next look at which offsets and groups are too old."""


def join_key(group: str) -> str:
    """Ends PreparingRebalance."""
    return f"join {group}"


def sync_key(group: str) -> str:
    """Ends the wait for the SyncGroups of a generation."""
    return f"sync {group}"


def session_key(group: str, member_id: str) -> str:
    """Ends a member, or an id that was handed out."""
    return f"session {len(group)} {group} {member_id}"


def again_key(group: str) -> str:
    """Does once more what could not be written down."""
    return f"again {group}"

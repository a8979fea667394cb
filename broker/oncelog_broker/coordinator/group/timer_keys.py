"""The timers of one shard's groups have these keys. Pure.

The length keeps names with blanks apart.
"""

from __future__ import annotations

EXPIRY_KEY = "expiry"
"""This timer looks next for offsets and groups that are too old."""


def join_key(group: str) -> str:
    """Return the key of the timer that ends PreparingRebalance."""
    return f"join {group}"


def sync_key(group: str) -> str:
    """Return the key of the timer that ends the wait for the SyncGroups of a generation."""
    return f"sync {group}"


def session_key(group: str, member_id: str) -> str:
    """Return the key of the timer that ends a member, or an id that was handed out."""
    return f"session {len(group)} {group} {member_id}"


def again_key(group: str) -> str:
    """Return the key of the timer that repeats a write that was refused."""
    return f"again {group}"

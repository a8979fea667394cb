"""Every page of the console has an example here: tests look at all of them, and the documents show
them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["EXAMPLES", "Example"]


@dataclass(frozen=True)
class Example:
    """One page is seen like this in the seeded cluster."""

    route: str
    """As the page is registered."""
    path: str
    name: str
    """Of its picture."""


EXAMPLES = (
    Example("/", "/", "overview"),
    Example("/topics", "/topics", "topics"),
    Example("/topics/{topic}", "/topics/orders", "topic"),
    Example("/brokers", "/brokers", "brokers"),
    Example("/brokers/{broker}", "/brokers/1", "broker"),
    Example("/groups", "/groups", "groups"),
    Example("/groups/{group:path}", "/groups/billing", "group"),
    Example("/transactions", "/transactions", "transactions"),
    Example("/transactions/{id:path}", "/transactions/payments-1", "transaction"),
    Example("/producers", "/producers?topic=payments", "producers"),
    Example("/settings", "/settings", "settings"),
    Example("/find", "/find?q=a", "find"),
)

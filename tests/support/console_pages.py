"""Every page of the console has an example here: tests look at all of them, and the documents show
them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.async_api import Page

    from support.browser import Person

__all__ = ["EXAMPLES", "Example", "pictures"]

KINDS = ("", "-dark", "-phone")
"""A page's pictures are told apart by the ends of their names: light and wide, dark, of a phone."""


@dataclass(frozen=True)
class Example:
    """One page is seen like this in the seeded cluster."""

    route: str
    """As the page is registered."""
    path: str
    name: str
    """Its pictures have this name."""
    press: str = ""
    """On the page at the path this is pressed, and leads to the page that is meant."""

    async def open(self, person: Person) -> Page:
        """Let somebody open it."""
        page = await person.open(self.path)
        if self.press:
            async with page.expect_navigation():
                await page.locator(self.press).click()
        return page


EXAMPLES = (
    Example("/", "/", "overview"),
    Example("/topics", "/topics", "topics"),
    Example("/topics/{topic}", "/topics/orders", "topic"),
    Example("/topics/{topic}/{partition}/log", "/topics/payments/0/log?offset=1", "log"),
    Example("/topics/{topic}/messages", "/topics/payments/messages?isolation=all", "messages"),
    Example(
        "/topics/{topic}/messages",
        "/topics/orders/messages?from=beginning&where=value.status+%3D%3D+%22failed%22",
        "search",
    ),
    Example("/topics/{topic}/{partition:int}/{offset:int}", "/topics/orders/3/0", "record"),
    Example("/brokers", "/brokers", "brokers"),
    Example("/brokers/{broker}", "/brokers/1", "broker"),
    Example("/groups", "/groups", "groups"),
    Example("/groups/{group:path}", "/groups/billing", "group"),
    Example("/transactions", "/transactions", "transactions"),
    Example("/transactions/{id:path}", "/transactions/payments-1", "transaction"),
    Example("/producers", "/producers?topic=payments", "producers"),
    Example("/events", "/events", "events"),
    Example("/changes", "/changes", "changes"),
    Example("/changes/{kind}", "/changes/create-topic", "change"),
    Example(
        "/plans/{plan}",
        "/changes/reset-offsets?group=billing&place=to_latest",
        "plan",
        press="main form.stack button",
    ),
    Example("/settings", "/settings", "settings"),
    Example("/find", "/find?q=a", "find"),
)


def pictures() -> dict[str, tuple[Example, str]]:
    """Return every picture by the name of its file, with what it shows and its kind."""
    return {f"{each.name}{kind}.webp": (each, kind) for each in EXAMPLES for kind in KINDS}

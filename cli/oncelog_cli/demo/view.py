"""The demo shows leaders, ISR, high watermarks and rate; it prints plain lines without a TTY."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

PLAIN_INTERVAL_S = 5.0


@dataclass(frozen=True, slots=True)
class PartitionLine:
    """One partition is shown so."""

    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    high_watermark: int


@dataclass(slots=True)
class DemoSnapshot:
    """A snapshot has everything that one picture shows."""

    partitions: list[PartitionLine] = field(default_factory=list)
    controller_id: int = -1
    acknowledged: int = 0
    total: int = 0
    rate: float = 0.0
    elapsed_s: float = 0.0


class DemoView(Protocol):
    """The demo tells a view what happens."""

    def say(self, text: str) -> None:
        """Print one line of the story, kept on the screen."""

    def show(self, snapshot: DemoSnapshot) -> None:
        """Show the picture as it is now."""

    def close(self) -> None:
        """Leave the terminal as it was."""


class PlainView:
    """Logs and pipes get the story, and a progress line every few seconds."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._last_shown_s = -PLAIN_INTERVAL_S

    def say(self, text: str) -> None:
        """Print the line."""
        print(text, file=self._out, flush=True)

    def show(self, snapshot: DemoSnapshot) -> None:
        """Print a progress line, not too often."""
        if snapshot.elapsed_s - self._last_shown_s < PLAIN_INTERVAL_S:
            return
        self._last_shown_s = snapshot.elapsed_s
        self.say(
            f"  {snapshot.acknowledged:>7,} of {snapshot.total:,} acknowledged, "
            f"{snapshot.rate:,.0f} records/s, {isr_summary(snapshot)}"
        )

    def close(self) -> None:
        """Do nothing: there is nothing to restore."""


class LiveView:
    """A person sees a table that stays in place under the story."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(stderr=True)
        self._live: Live = Live(console=self._console, refresh_per_second=8, transient=True)
        self._live.start()

    def say(self, text: str) -> None:
        """Print above the table."""
        self._console.print(text, highlight=False)

    def show(self, snapshot: DemoSnapshot) -> None:
        """Redraw the table."""
        self._live.update(table(snapshot))

    def close(self) -> None:
        """Take the table away."""
        self._live.stop()


def make_view(out: TextIO) -> DemoView:
    """Make a live view for a terminal with rich installed, else a plain one."""
    if out.isatty():
        try:
            return LiveView()
        except ImportError:
            pass
    return PlainView(out)


def isr_summary(snapshot: DemoSnapshot) -> str:
    """Return how many partitions lack replicas, in words."""
    short = [line for line in snapshot.partitions if len(line.isr) < len(line.replicas)]
    if not short:
        return "all in sync"
    return f"{len(short)} of {len(snapshot.partitions)} partitions under-replicated"


def table(snapshot: DemoSnapshot) -> Table:
    """Make a table with one row a partition."""
    from rich.table import Table

    shown = Table(
        title=f"{snapshot.acknowledged:,} of {snapshot.total:,} flights acknowledged, "
        f"{snapshot.rate:,.0f} records/s",
        caption=f"controller: broker {snapshot.controller_id}",
    )
    for heading in ("partition", "leader", "epoch", "ISR", "high watermark"):
        shown.add_column(heading, justify="right")
    for line in snapshot.partitions:
        isr = ", ".join(map(str, line.isr))
        style = "yellow" if len(line.isr) < len(line.replicas) else ""
        shown.add_row(
            str(line.partition),
            str(line.leader) if line.leader >= 0 else "none",
            str(line.leader_epoch),
            isr,
            f"{line.high_watermark:,}",
            style=style,
        )
    return shown

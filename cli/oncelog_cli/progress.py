"""A person sees a progress bar on stderr: never in a pipe, never in the way of what is typed."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class ProgressBar:
    """A progress bar is shown if ``wanted``, stderr is a terminal and rich is installed.

    Use it as ``with ProgressBar("producing", total) as bar: bar.show(done, "1,000 records")``.
    """

    def __init__(self, title: str, total: int | None, *, wanted: bool = True) -> None:
        self._title = title
        self._total = total
        self._wanted = wanted
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> ProgressBar:
        if not self._wanted or not sys.stderr.isatty():
            return self
        try:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
        except ImportError:
            return self
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._progress.start()
        self._task = self._progress.add_task(self._title, total=self._total, note="")
        return self

    def show(self, done: int, note: str) -> None:
        """Show ``done`` of the total, and a few words."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, note=note)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

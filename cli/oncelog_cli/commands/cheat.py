"""``oncelog cheat`` prints one page of examples, by what one wants to do."""

from __future__ import annotations

from typing import Annotated

from oncelog_cli import typed
from oncelog_cli.options import UsageError

SHEETS: dict[str, tuple[tuple[str, str], ...]] = {
    "start": (
        ("a cluster of three brokers on this machine", "oncelog up"),
        ("what of it runs", "oncelog status"),
        ("stop it, and remove its data", "oncelog down --delete"),
        ("use another cluster from now on", "oncelog profile create prod --server HOST:PORT --use"),
    ),
    "topics": (
        ("create one", "oncelog topics create orders -p 6 -r 3 -c retention_ms=604800000"),
        ("what there is, and how it is", "oncelog topics describe orders"),
        ("change a setting", "oncelog configs alter -t orders -c retention_ms=86400000"),
        ("one like it, with its records", "oncelog topics clone orders orders-copy --records"),
        ("delete what is older than a week", "oncelog delete-records orders --before @-7d"),
    ),
    "produce": (
        ("one record a line", "seq 100 | oncelog produce orders"),
        ("keys before a tab", "printf 'k\\tv\\n' | oncelog produce orders -K $'\\t'"),
        ("all or nothing", "oncelog produce orders -i file --transactional-id nightly"),
        (
            "from one topic to another",
            "oncelog consume a -e --json | oncelog produce b --json-lines",
        ),
    ),
    "consume": (
        ("what is written from now on", "oncelog consume orders"),
        ("everything there is", "oncelog consume orders --until-end"),
        ("the last ten of each partition", "oncelog consume orders -o -10:end"),
        ("the last hour", "oncelog consume orders -o @-1h:end"),
        ("records that say 'refund'", "oncelog consume orders -e --grep value:refund"),
        ("where and when only", "oncelog consume orders -e --meta-only"),
        ("a line of one's own", "oncelog consume orders -f '%t %p %o %T %k %v\\n'"),
        ("what groups have committed", "oncelog consume __consumer_offsets -e --decode"),
    ),
    "groups": (
        ("who is behind", "oncelog groups describe -r '.*' --state"),
        (
            "back to an hour ago: the plan",
            "oncelog groups reset-offsets g -t orders --by-duration 1h",
        ),
        ("and do it", "oncelog groups reset-offsets g -t orders --by-duration 1h --execute"),
        ("as far as another group", "oncelog groups reset-offsets g --to-group other --execute"),
    ),
    "moves": (
        (
            "what it would be to move a partition",
            "oncelog partitions move orders:0 --to 3,2 --dry-run",
        ),
        ("and do it", "oncelog partitions move orders:0 --to 3,2"),
        ("how far it is", "oncelog partitions status"),
        (
            "wait for the end; exit code 10 if it is stalled",
            "oncelog partitions status --watch --exit-when-done",
        ),
        ("as it was before", "oncelog partitions cancel orders:0"),
    ),
    "trouble": (
        ("is the cluster healthy? exit code 10 if not", "oncelog cluster health"),
        ("wait until it is", "oncelog cluster health --watch --exit-when-healthy --timeout 5m"),
        ("which partitions suffer", "oncelog partitions list --under-replicated --unavailable"),
        ("transactions that hang", "oncelog transactions find-hanging"),
        ("leaders back where they belong", "oncelog elect-leaders"),
        ("one file for whoever helps", "oncelog support-bundle"),
    ),
}
"""Each topic's pairs of a wish and the command that fulfils it."""


def cheat(
    topic: Annotated[
        str | None,
        typed.Argument(
            metavar="[SHEET]",
            autocompletion=lambda incomplete: [s for s in SHEETS if s.startswith(incomplete)],
        ),
    ] = None,
) -> None:
    """Show examples of what the command line can do; without a name, all of them."""
    if topic is not None and topic not in SHEETS:
        raise UsageError(f"{topic!r}: there are {', '.join(SHEETS)}")
    for number, name in enumerate(SHEETS if topic is None else [topic]):
        if number:
            print()
        print(f"# {name}")
        for what, command in SHEETS[name]:
            print(f"\n# {what}\n{command}")

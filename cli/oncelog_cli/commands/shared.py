"""``oncelog shared`` is the owner of shared transactions; writers are 'produce --ticket'.

::

    oncelog shared begin nightly --tag 7 > ticket.json
    oncelog produce orders --ticket ticket.json --writer part-0 --json < a.txt > a.json
    oncelog produce orders --ticket ticket.json --writer part-1 --json < b.txt > b.json
    oncelog shared commit ticket.json a.json b.json

Rules: what is decided stays decided, so every command may be repeated; one that finds it decided
says so and exits with 0, if it was decided as asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

from oncelog_cli import clients, typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.commands.transactions import (
    SHARED_COLUMNS,
    show_transactions,
)
from oncelog_cli.documents.answer import fields_of
from oncelog_cli.documents.transactions import described_shared, listed_shared
from oncelog_cli.group_offsets import duration_ms
from oncelog_cli.options import (
    IdsArgument,
    RegexOption,
    SomeIdsArgument,
    complete_transactional_ids,
    parsed,
)
from oncelog_cli.render import Output
from oncelog_cli.runner import run
from oncelog_cli.tickets import read_receipt, read_ticket

if TYPE_CHECKING:
    from oncelog.shared_transactions.transaction import Receipt, SharedEnd, Ticket

app = typed.App(help="Begin, commit and abort transactions that many writers share.")

IdArgument = Annotated[str, typed.Argument(metavar="ID", autocompletion=complete_transactional_ids)]
TicketArgument = Annotated[str, typed.Argument(metavar="TICKET", help="A file, or JSON.")]


@app.command()
def begin(
    output: Output,
    cluster: NamedCluster,
    transactional_id: IdArgument,
    tag: Annotated[
        int,
        typed.Option(
            "--tag",
            min=0,
            metavar="N",
            help="What is written; must be above the last one that was committed.",
        ),
    ],
    timeout: Annotated[
        str,
        typed.Option(
            "--timeout",
            metavar="DURATION",
            help="How long it may stay open, from the first writer on.",
        ),
    ] = "1m",
) -> None:
    """Begin a transaction, and print its ticket for writers and owner: one line of JSON.

    The first writer that joins with it aborts an older transaction of the same id that is still
    open.
    """
    timeout_ms = parsed("--timeout", duration_ms, timeout)
    servers = cluster.servers

    async def work() -> Ticket:
        from oncelog.shared_transactions.transaction import SharedTransaction

        txn = await SharedTransaction.begin(
            bootstrap_servers=servers,
            transactional_id=transactional_id,
            tag=tag,
            timeout_ms=timeout_ms,
            **clients.settings_for(SharedTransaction, client_id=clients.CLIENT_ID),
        )
        return txn.ticket

    ticket = run(work())
    output.line(ticket.to_json())
    output.finish({"ticket": asdict(ticket)})


@app.command()
def commit(
    output: Output,
    cluster: NamedCluster,
    ticket: TicketArgument,
    winners: Annotated[
        list[str] | None,
        typed.Argument(
            metavar="[RECEIPT...]",
            help="Those whose records become visible: files, or JSON, of 'produce --ticket'.",
        ),
    ] = None,
) -> None:
    """Make what the winners wrote visible, all at once; what other writers wrote never will be."""
    found = _ticket(ticket, cluster)
    receipts = [read_receipt(item) for item in winners or ()]
    _finish(output, found, run(_end(found, receipts)), wanted=True)


@app.command()
def abort(
    output: Output,
    cluster: NamedCluster,
    ticket: TicketArgument,
) -> None:
    """Make what all writers wrote invisible for good; fails when it is committed already."""
    found = _ticket(ticket, cluster)
    _finish(output, found, run(_end(found, None)), wanted=False)


@app.command("list")
def list_shared(
    output: Output,
    cluster: NamedCluster,
    patterns: SomeIdsArgument = None,
    regex: RegexOption = False,
) -> None:
    """List the ids of shared transactions: state, tag, last committed tag, writers."""
    answer = cluster.ask(lambda admin: listed_shared(admin, patterns, regex=regex))
    output.show(SHARED_COLUMNS, output.document_of(answer))


def _ticket(text: str, cluster: NamedCluster) -> Ticket:
    found = read_ticket(text)
    return found if cluster.named is None else replace(found, bootstrap_servers=cluster.named)


async def _end(ticket: Ticket, winners: Sequence[Receipt] | None) -> SharedEnd:
    """Commit what the winners wrote; None aborts."""
    from oncelog.shared_transactions.transaction import SharedTransaction

    options = clients.settings_for(SharedTransaction, client_id=clients.CLIENT_ID)
    transaction = SharedTransaction(ticket, **options)
    return await (transaction.abort() if winners is None else transaction.commit(winners))


def _finish(output: Output, ticket: Ticket, end: SharedEnd, *, wanted: bool) -> None:
    how = "committed" if end.committed else "aborted"
    what = f"{ticket.transactional_id}, tag {ticket.tag}"
    if end.committed is not wanted:
        output.fail("", f"{what} is {how} already")
    else:
        output.line(f"{what} {'was ' if end.already else ''}{how}{' before' * end.already}")
    named = fields_of(ticket, "transactional_id tag ordinal")
    output.finish({**named, **fields_of(end, "committed already")})


@app.command()
def describe(
    output: Output,
    cluster: NamedCluster,
    transactional_ids: IdsArgument,
    regex: RegexOption = False,
) -> None:
    """Show shared transactions: state, tag, last committed tag, writers and where they wrote."""
    document = output.document_of(
        cluster.ask(lambda admin: described_shared(admin, transactional_ids, regex=regex))
    )
    show_transactions(document["transactions"], output, SHARED_COLUMNS)
    output.finish(document)

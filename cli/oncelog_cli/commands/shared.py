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

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

from oncelog_cli import clients, typed
from oncelog_cli.commands.transactions import (
    SHARED_COLUMNS,
    described_transactions,
    listed_shared,
    show_transactions,
)
from oncelog_cli.group_offsets import duration_ms
from oncelog_cli.options import (
    BootstrapOption,
    Format,
    FormatOption,
    JsonOption,
    RegexOption,
    UsageError,
    bootstrap_servers,
    chosen_format,
    complete_transactional_ids,
)
from oncelog_cli.render import Output
from oncelog_cli.runner import CommandError, run
from oncelog_cli.tickets import read_receipt, read_ticket

if TYPE_CHECKING:
    from oncelog.shared_transactions.transaction import SharedEnd, Ticket

app = typed.App(
    no_args_is_help=True,
    help="Begin, commit and abort transactions that many writers share.",
)

IdArgument = Annotated[
    str,
    typed.Argument(metavar="ID", autocompletion=complete_transactional_ids),
]
TicketArgument = Annotated[
    str,
    typed.Argument(metavar="TICKET", help="A file, or JSON."),
]


@app.command()
def begin(
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
    bootstrap: BootstrapOption = None,
    output_format: FormatOption = Format.TEXT,
    as_json: JsonOption = False,
) -> None:
    """Begin a transaction, and print its ticket for writers and owner: one line of JSON.

    The first writer that joins with it aborts an older transaction of the same id that is still
    open.
    """
    output = Output("shared begin", chosen_format(output_format, as_json))
    try:
        timeout_ms = duration_ms(timeout)
    except ValueError as error:
        raise UsageError(f"--timeout {error}") from None
    servers = bootstrap_servers(bootstrap)

    async def work() -> Ticket:
        from oncelog.shared_transactions.transaction import SharedTransaction

        txn = await SharedTransaction.begin(
            bootstrap_servers=servers,
            transactional_id=transactional_id,
            tag=tag,
            timeout_ms=timeout_ms,
            **clients.settings_for(SharedTransaction.begin, client_id=clients.CLIENT_ID),
        )
        return txn.ticket

    ticket = run(work())
    output.line(ticket.to_json())
    output.finish({"ticket": asdict(ticket)})


@app.command()
def commit(
    ticket: TicketArgument,
    winners: Annotated[
        list[str] | None,
        typed.Argument(
            metavar="[RECEIPT...]",
            help="Those whose records become visible: files, or JSON, of 'produce --ticket'.",
        ),
    ] = None,
    bootstrap: BootstrapOption = None,
    output_format: FormatOption = Format.TEXT,
    as_json: JsonOption = False,
) -> None:
    """Make what the winners wrote visible, all at once; what other writers wrote never will be."""
    output = Output("shared commit", chosen_format(output_format, as_json))
    found = _ticket(ticket, bootstrap)
    receipts = [read_receipt(item) for item in winners or ()]

    async def work() -> SharedEnd:
        from oncelog.shared_transactions.transaction import SharedTransaction

        options = clients.settings_for(SharedTransaction, client_id=clients.CLIENT_ID)
        return await SharedTransaction(found, **options).commit(receipts)

    _finish(output, found, run(work()), wanted=True)


@app.command()
def abort(
    ticket: TicketArgument,
    bootstrap: BootstrapOption = None,
    output_format: FormatOption = Format.TEXT,
    as_json: JsonOption = False,
) -> None:
    """Make what all writers wrote invisible for good; fails when it is committed already."""
    output = Output("shared abort", chosen_format(output_format, as_json))
    found = _ticket(ticket, bootstrap)

    async def work() -> SharedEnd:
        from oncelog.shared_transactions.transaction import SharedTransaction

        options = clients.settings_for(SharedTransaction, client_id=clients.CLIENT_ID)
        return await SharedTransaction(found, **options).abort()

    _finish(output, found, run(work()), wanted=False)


@app.command("list")
def list_shared(
    patterns: Annotated[
        list[str] | None,
        typed.Argument(metavar="[ID...]", autocompletion=complete_transactional_ids),
    ] = None,
    regex: RegexOption = False,
    bootstrap: BootstrapOption = None,
    output_format: FormatOption = Format.TEXT,
    as_json: JsonOption = False,
) -> None:
    """List the ids of shared transactions: state, tag, last committed tag, writers."""
    output = Output("shared list", chosen_format(output_format, as_json))
    shared = run(listed_shared(bootstrap_servers(bootstrap), patterns or (), regex, output))
    output.table(SHARED_COLUMNS, shared)
    output.finish({"transactions": shared})


def _ticket(text: str, bootstrap: str | None) -> Ticket:
    found = read_ticket(text)
    return found if bootstrap is None else replace(found, bootstrap_servers=bootstrap)


def _finish(output: Output, ticket: Ticket, end: SharedEnd, *, wanted: bool) -> None:
    how = "committed" if end.committed else "aborted"
    what = f"{ticket.transactional_id}, tag {ticket.tag}"
    if end.committed is not wanted:
        output.fail("", f"{what} is {how} already")
    else:
        output.line(f"{what} {'was ' if end.already else ''}{how}{' before' * end.already}")
    payload: dict[str, Any] = {
        "transactional_id": ticket.transactional_id,
        "tag": ticket.tag,
        "ordinal": ticket.ordinal,
        "committed": end.committed,
        "already": end.already,
    }
    output.finish(payload)


@app.command()
def describe(
    transactional_ids: Annotated[
        list[str],
        typed.Argument(metavar="ID...", autocompletion=complete_transactional_ids),
    ],
    regex: RegexOption = False,
    bootstrap: BootstrapOption = None,
    output_format: FormatOption = Format.TEXT,
    as_json: JsonOption = False,
) -> None:
    """Show shared transactions: state, tag, last committed tag, writers and where they wrote."""
    output = Output("shared describe", chosen_format(output_format, as_json))
    documents = run(
        described_transactions(bootstrap_servers(bootstrap), transactional_ids, regex, output)
    )
    shared = [document for document in documents if document["shared"]]
    for document in documents:
        if not document["shared"] and not regex:
            output.fail(document["transactional_id"], "it is no id of shared transactions")
    if not shared and not output.errors:
        raise CommandError(f"no shared transaction matches {' or '.join(transactional_ids)}")
    show_transactions(shared, output, SHARED_COLUMNS)
    output.finish({"transactions": shared})

"""``oncelog tls`` makes certificates for a cluster and its clients, and looks at what there is."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from oncelog_cli import extras, typed
from oncelog_cli.exits import UsageError
from oncelog_cli.render import Column, Output

if TYPE_CHECKING:
    from oncelog_cli.tls.authority import Issued
    from oncelog_cli.tls.inspection import Inspection, Seen

app = typed.App(help="Make certificates for TLS, and check those there are.")

DAYS_DEFAULT = 365
DAYS_MAX = 3650
DAYS_MIN = 7.0
"""``check`` wants so many days left: time enough to renew without haste."""


def _show_days(value: Any) -> str:
    return f"{value:.0f}"


def _show_purposes(value: Any) -> str:
    return ",".join(value) or "anything"


def _show_fits(value: Any) -> str:
    return {None: "-", True: "fits", False: "does not fit"}[value]


MADE_COLUMNS = (
    Column("NAME", "name"),
    Column("USE", "use"),
    Column("HOSTS", "hosts"),
    Column("DAYS", "days", right=True),
    Column("CERTIFICATE", "certificate_file"),
    Column("KEY", "key_file"),
)
SEEN_COLUMNS = (
    Column("SUBJECT", "subject"),
    Column("FOR", "purposes", show=_show_purposes),
    Column("USER", "user"),
    Column("HOSTS", "hosts"),
    Column("DAYS", "days_left", right=True, show=_show_days),
    Column("KEY", "key_fits", show=_show_fits),
    Column("VERIFIED", "verified"),
    Column("UNTIL", "not_after", wide=True),
)

CaOption = Annotated[
    Path | None,
    typed.Option(
        "--ca", metavar="FILE", help="CAs to verify by. Default for a file: ca.pem there."
    ),
]


@app.command()
def make(
    output: Output,
    directory: Annotated[
        Path, typed.Option("--dir", "-d", metavar="PATH", help="Where the CA is, or will be.")
    ],
    broker: Annotated[
        list[str] | None,
        typed.Option(
            "--broker",
            metavar="NAME=HOST,...",
            help="A broker, with the hosts that it is dialled by; repeatable.",
        ),
    ] = None,
    client: Annotated[
        list[str] | None,
        typed.Option("--client", metavar="NAME", help="A client; repeatable."),
    ] = None,
    renew: Annotated[
        list[str] | None,
        typed.Option(
            "--renew", metavar="NAME", help="Make this one again, for the same hosts; repeatable."
        ),
    ] = None,
    days: Annotated[
        int, typed.Option("--days", min=1, max=DAYS_MAX, help="So long they are valid.")
    ] = DAYS_DEFAULT,
    force: Annotated[
        bool, typed.Option("--force", help="Replace certificates that are there; the CA stays.")
    ] = False,
) -> None:
    """Make certificates, and a CA if the directory has none.

    A certificate names its user: that of --client app is User:app, that of --broker broker-1=HOST
    is User:broker-1, which by default is the broker with the id 1. Keep ca.key where no broker
    runs: whoever has it can be any user.
    """
    extras.need("local", extras.CERTIFICATES, "making certificates")
    from oncelog_cli.tls.authority import CertificateDirectory, Holder, parse_broker

    holders = [parse_broker(each) for each in broker or ()]
    holders += [Holder(each) for each in client or ()]
    if bool(holders) == bool(renew):
        raise UsageError("say for whom: --broker and --client, or --renew")
    now = datetime.now(UTC)
    place = CertificateDirectory(directory, now)
    if renew:
        issued = place.renew(renew, days=days)
    else:
        issued = place.make(holders, days=days, force=force)
    rows = [_made_row(each, now) for each in issued]
    output.table(MADE_COLUMNS, rows)
    output.finish({"certificates": rows, "ca_file": str(place.ca_file)})


def _made_row(issued: Issued, now: datetime) -> dict[str, Any]:
    return {
        "name": issued.name,
        "use": issued.use,
        "hosts": list(issued.hosts),
        "days": round((issued.not_after - now).total_seconds() / 86_400),
        "not_after": _text(issued.not_after),
        "certificate_file": str(issued.certificate_file),
        "key_file": str(issued.key_file),
    }


@app.command()
def check(
    output: Output,
    what: Annotated[str, typed.Argument(metavar="FILE|HOST:PORT")],
    ca: CaOption = None,
    certificate: Annotated[
        Path | None,
        typed.Option("--certificate", metavar="FILE", help="Show this one to the server."),
    ] = None,
    key: Annotated[
        Path | None,
        typed.Option("--key", metavar="FILE", help="Its key. Default for a file: beside it."),
    ] = None,
    server_name: Annotated[
        str | None,
        typed.Option("--server-name", metavar="NAME", help="It must have this name, not HOST."),
    ] = None,
    min_days: Annotated[
        float, typed.Option("--min-days", min=0, metavar="DAYS", help="Fewer left are an error.")
    ] = DAYS_MIN,
) -> None:
    """Say what a certificate is for and how long, and whether all that belongs to it fits.

    A FILE is looked at with its key and its CA. A server at HOST:PORT is verified as a client
    would. What is wrong is said with a remedy, and the exit code is 1 then.
    """
    extras.need("local", extras.CERTIFICATES, "looking at certificates")
    from oncelog_cli.tls import inspection

    now = datetime.now(UTC)
    host, port = _server(what)
    if not port:
        if certificate is not None or server_name is not None:
            raise UsageError("--certificate and --server-name are for HOST:PORT")
        found = inspection.inspect_file(Path(what), key=key, ca=ca, now=now, days_min=min_days)
    else:
        if (certificate is None) != (key is None):
            raise UsageError("--certificate and --key go together")
        found = inspection.inspect_server(
            host,
            port,
            ca=ca,
            server_name=server_name,
            pair=None if certificate is None or key is None else (certificate, key),
            now=now,
            days_min=min_days,
        )
    _show(output, found)


def _server(what: str) -> tuple[str, int]:
    """Return host and port; port 0: it is a file."""
    host, colon, port = what.rpartition(":")
    if Path(what).exists() or not colon or "/" in what or not port.isdecimal():
        return "", 0
    if not host or not 0 < int(port) < 65536:
        raise UsageError(f"{what!r}: expected the path of a file, or HOST:PORT")
    return host.strip("[]"), int(port)


def _show(output: Output, found: Inspection) -> None:
    rows = [_seen_row(each) for each in found.certificates]
    output.table(SEEN_COLUMNS, rows)
    for remark in found.remarks:
        output.note(remark)
    for problem in found.problems:
        output.fail(found.place, problem)
    output.finish({"certificates": rows, "place": found.place, "remarks": found.remarks})


def _seen_row(seen: Seen) -> dict[str, Any]:
    return {
        "subject": seen.subject,
        "purposes": seen.purposes,
        "user": None if seen.user is None else f"User:{seen.user}",
        "hosts": seen.hosts,
        "days_left": round(seen.days_left, 1),
        "key_fits": seen.key_fits,
        "verified": seen.verified,
        "not_after": _text(seen.not_after),
    }


def _text(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")

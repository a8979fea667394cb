"""Commands about quotas take the same words for whose and how much; they become the SDK's here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from oncelog_cli import typed
from oncelog_cli.exits import UsageError
from oncelog_cli.options import parsed
from oncelog_cli.render import Column, human_bytes

if TYPE_CHECKING:
    from oncelog import QuotaEntity

UserOption = Annotated[
    str | None, typed.Option("--user", "-u", metavar="NAME", help="Of this user.")
]
AnyUserOption = Annotated[
    bool, typed.Option("--any-user", help="Of each user that has no quota of its own.")
]
ClientIdOption = Annotated[
    str | None,
    typed.Option("--client-id", metavar="ID", help="Of this client id; with --user: of both."),
]
AnyClientIdOption = Annotated[
    bool, typed.Option("--any-client-id", help="Of each client id that has no quota of its own.")
]
AddressOption = Annotated[
    str | None, typed.Option("--address", metavar="ADDRESS", help="Of this address.")
]
AnyAddressOption = Annotated[
    bool,
    typed.Option(
        "--any-address", help="Of each address without a quota of its own, but not of loopback."
    ),
]
ProduceOption = Annotated[
    str | None,
    typed.Option("--produce", metavar="SIZE/s", help="Bytes written in a second, as 10MiB/s."),
]
ConsumeOption = Annotated[
    str | None,
    typed.Option("--consume", metavar="SIZE/s", help="Bytes read in a second, as 10MiB/s."),
]
RequestsOption = Annotated[
    str | None,
    typed.Option(
        "--requests", metavar="UNITS/s", help="Work of requests in a second; one is some 10 µs."
    ),
]
MutationsOption = Annotated[
    str | None,
    typed.Option("--mutations", metavar="N/s", help="Partitions created or deleted in a second."),
]
ConnectionRateOption = Annotated[
    str | None,
    typed.Option("--connection-rate", metavar="N/s", help="Connections made in a second."),
]
ConnectionsOption = Annotated[
    str | None, typed.Option("--connections", metavar="N", help="Connections at a time.")
]

_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)(?:/s)?")
_UNITS = {
    "": 1,
    "b": 1,
    "kib": 1024,
    "mib": 1024**2,
    "gib": 1024**3,
    "tib": 1024**4,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
    "tb": 1000**4,
}


def parse_size(text: str) -> float:
    """Return the bytes that a size such as ``10MiB/s`` says; ``MB`` is a million bytes.

    :raises ValueError: it says none.
    """
    found = _NUMBER.fullmatch(text.strip())
    if found is None or found[2].lower() not in _UNITS:
        raise ValueError(f"{text!r} is no size such as 500KiB/s, 10MiB/s or 1000000")
    return float(found[1]) * _UNITS[found[2].lower()]


def parse_count(text: str) -> float:
    """Return the number that ``text`` says, such as ``10`` or ``0.5/s``.

    :raises ValueError: it says none.
    """
    found = _NUMBER.fullmatch(text.strip())
    if found is None or found[2]:
        raise ValueError(f"{text!r} is no number such as 10 or 0.5/s")
    return float(found[1])


@dataclass(frozen=True, slots=True)
class EntityWords(typed.OptionGroup):
    """It is what a command line says of whose a quota is, as it was typed."""

    user: UserOption = None
    any_user: AnyUserOption = False
    client_id: ClientIdOption = None
    any_client_id: AnyClientIdOption = False
    address: AddressOption = None
    any_address: AnyAddressOption = False

    def entity(self) -> QuotaEntity:
        """Return whose it is.

        :raises UsageError: it is nobody's, or of what does not go together.
        """
        from oncelog.errors import InvalidRequestError

        try:
            return self._parts().checked()
        except InvalidRequestError as error:
            if not any(part is not None for part in self._parts()):
                raise UsageError("of whom? Give --user, --client-id or --address") from None
            raise UsageError(str(error)) from None

    def _parts(self) -> QuotaEntity:
        from oncelog import QuotaEntity

        user = None if self.user is None else self.user.removeprefix("User:")
        return QuotaEntity(
            _part("user", user, self.any_user),
            _part("client-id", self.client_id, self.any_client_id),
            _part("address", self.address, self.any_address),
        )


def _part(what: str, name: str | None, any_of_them: bool) -> str | None:
    from oncelog.admin.quotas import DEFAULT_ENTITY

    if name is not None and any_of_them:
        raise UsageError(f"--{what} and --any-{what}: one of them is possible")
    if name == DEFAULT_ENTITY:
        raise UsageError(f"--{what} is empty: --any-{what} is for those without a quota")
    return DEFAULT_ENTITY if any_of_them else name


@dataclass(frozen=True, slots=True)
class QuotaWords(typed.OptionGroup):
    """It has the amounts of a command line, as they were typed."""

    produce: ProduceOption = None
    consume: ConsumeOption = None
    requests: RequestsOption = None
    mutations: MutationsOption = None
    connection_rate: ConnectionRateOption = None
    connections: ConnectionsOption = None

    def values(self) -> dict[str, float]:
        """Return the quotas by their keys.

        :raises UsageError: there is none, or one is no number.
        """
        from oncelog.admin import quotas

        given = (
            ("--produce", quotas.PRODUCER_BYTE_RATE, parse_size, self.produce),
            ("--consume", quotas.CONSUMER_BYTE_RATE, parse_size, self.consume),
            ("--requests", quotas.REQUEST_RATE, parse_count, self.requests),
            ("--mutations", quotas.CONTROLLER_MUTATION_RATE, parse_count, self.mutations),
            (
                "--connection-rate",
                quotas.CONNECTION_CREATION_RATE,
                parse_count,
                self.connection_rate,
            ),
            ("--connections", quotas.CONNECTIONS, parse_count, self.connections),
        )
        found = {
            key: parsed(option, parse, text)
            for option, key, parse, text in given
            if text is not None
        }
        if not found:
            raise UsageError(f"how much? Give {', '.join(option for option, *_ in given)}")
        return found


def amount_text(key: str, value: float) -> str:
    """Return a quota as people write it."""
    if key.endswith("_byte_rate"):
        return f"{human_bytes(value)}/s"
    return f"{value:g}" if key == "connections" else f"{value:g}/s"


def row_of(entity: QuotaEntity, key: str, value: float | None) -> dict[str, Any]:
    """Return one quota as a row. A part is None where it does not count, and "" for all others."""
    return {
        "of": entity.sentence(),
        "user": entity.user,
        "client_id": entity.client_id,
        "address": entity.address,
        "key": key,
        "value": value,
    }


COLUMNS = (
    Column("OF", "of"),
    Column("QUOTA", "key"),
    Column("VALUE", "value", right=True),
)
CHANGE_COLUMNS = (Column("OF", "of"), Column("QUOTA", "key"), Column("ALTERED", "altered"))

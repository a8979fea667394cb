"""A quota says how much a user, a client id or an address may have of each broker.

Names and meanings are Kafka's (KIP-13, KIP-55, KIP-124, KIP-219, KIP-546, KIP-599, KIP-612), with
these differences:

* ``request_rate`` stands instead of ``request_percentage``. It counts units of work, by a table of
  prices, and no time.
* ``connections`` of an address is a quota too; in Kafka it is a setting of brokers.
* A quota of 0 stops what it counts. A number that is none is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from oncelog_protocol.acls import PRINCIPAL_CHARS_MAX, USER, peer_address
from oncelog_protocol.errors import InvalidRequestError
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.schema import Name

PRODUCER_BYTE_RATE = "producer_byte_rate"
"""Bytes of batches that are written, in a second."""
CONSUMER_BYTE_RATE = "consumer_byte_rate"
"""Bytes of batches that are read, in a second."""
REQUEST_RATE = "request_rate"
"""Units of work that requests take, in a second."""
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
"""Partitions that are created or deleted, in a second (KIP-599)."""

CONNECTION_CREATION_RATE = "connection_creation_rate"
"""Connections that an address makes, in a second (KIP-612)."""
CONNECTIONS = "connections"
"""Connections that an address has at a time."""

CLIENT_QUOTA_KEYS = (
    PRODUCER_BYTE_RATE,
    CONSUMER_BYTE_RATE,
    REQUEST_RATE,
    CONTROLLER_MUTATION_RATE,
)
"""They are of users and client ids."""

ADDRESS_QUOTA_KEYS = (CONNECTION_CREATION_RATE, CONNECTIONS)
"""They are of addresses."""

DEFAULT_ENTITY = ""
"""As a user, a client id or an address it stands for each one that has no quota of its own."""

USERS = "users"
CLIENTS = "clients"
USER_CLIENTS = "user-clients"
ADDRESSES = "addresses"
QUOTA_KINDS = (USERS, CLIENTS, USER_CLIENTS, ADDRESSES)
"""An entity has one of these kinds, by the parts that it has."""

QUOTA_VALUE_MAX = 2**63 - 1

NEVER_HELD = frozenset(
    {
        ApiKey.API_VERSIONS,
        ApiKey.FIND_COORDINATOR,
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.OFFSET_COMMIT,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
        ApiKey.END_SHARED_TXN,
        ApiKey.ABORT_TRANSACTION,
    }
)
"""These go on while a connection is held: without them a group would lose its member, and a
transaction would hold up its readers."""


class QuotaEntity(NamedTuple):
    """It is whom a quota is of: a user, a client id, or the two together; or an address.

    Each part is a name, ``DEFAULT_ENTITY``, or None: then it does not count.
    """

    user: str | None = None
    client_id: str | None = None
    address: str | None = None

    @property
    def kind(self) -> str:
        """Return which of ``QUOTA_KINDS`` it is."""
        if self.address is not None:
            return ADDRESSES
        if self.user is None:
            return CLIENTS
        return USERS if self.client_id is None else USER_CLIENTS

    @property
    def keys(self) -> tuple[str, ...]:
        """Return what may be counted for it."""
        return CLIENT_QUOTA_KEYS if self.address is None else ADDRESS_QUOTA_KEYS

    def checked(self) -> QuotaEntity:
        """Return it in the one spelling in which it is kept.

        :raises InvalidRequestError: it is nobody, an address together with something else, or has a
            name that cannot be.
        """
        _check_name("user", self.user)
        _check_name("client id", self.client_id)
        if self.address is None:
            if self.user is None and self.client_id is None:
                raise InvalidRequestError(
                    "a quota is of a user, of a client id, of both, or of an address"
                )
            return self
        if self.user is not None or self.client_id is not None:
            raise InvalidRequestError("a quota of an address is of no user and no client id")
        if self.address == DEFAULT_ENTITY:
            return self
        address = peer_address(self.address)
        if address is None:
            raise InvalidRequestError(f"{self.address[:64]!r} is no address")
        return QuotaEntity(None, None, str(address))

    def check_key(self, key: str) -> None:
        """Check that ``key`` may be counted for it.

        :raises InvalidRequestError: it may not.
        """
        if key not in self.keys:
            raise InvalidRequestError(
                f"quota {key[:64]!r} of {self.kind}: not one of {', '.join(self.keys)}"
            )

    def sentence(self) -> str:
        """Return whom it is, as people would say it."""
        names = zip(("user", "client id", "address"), self, strict=True)
        parts = [
            f"any {what}" if name == DEFAULT_ENTITY else f"{what} {name}"
            for what, name in names
            if name is not None
        ]
        return " with ".join(parts)


def check_value(key: str, value: float) -> None:
    """Check that a quota may be so much.

    :raises InvalidRequestError: it is no number from 0 to 2^63 - 1.
    """
    if type(value) not in (int, float) or not 0 <= value <= QUOTA_VALUE_MAX:
        raise InvalidRequestError(f"{key}: the value is not a number from 0 to 2^63 - 1")


@dataclass(frozen=True, slots=True)
class QuotaValue:
    """It says how much of a key."""

    key: Name
    value: float


@dataclass(frozen=True, slots=True)
class EntityQuotas:
    """It has all quotas of one entity, as they travel; none ends it."""

    user: Name | None
    client_id: Name | None
    address: Name | None
    values: list[QuotaValue] = field(default_factory=list)

    @classmethod
    def of(cls, entity: QuotaEntity, values: Iterable[tuple[str, float]]) -> EntityQuotas:
        """Return the quotas of an entity, by their keys."""
        return cls(*entity, [QuotaValue(key, float(value)) for key, value in values])

    @property
    def entity(self) -> QuotaEntity:
        """Return whom they are of."""
        return QuotaEntity(self.user, self.client_id, self.address)

    def checked(self) -> dict[str, float]:
        """Return the values by their keys.

        :raises InvalidRequestError: the entity, a key or a value cannot be.
        """
        entity = self.entity
        if entity.checked() != entity:
            raise InvalidRequestError(f"{entity.sentence()} is not spelled as it is kept")
        for each in self.values:
            entity.check_key(each.key)
            check_value(each.key, each.value)
        return {each.key: each.value for each in self.values}


@dataclass(frozen=True, slots=True)
class QuotaFilter:
    """It chooses entities: None leaves a part open, or, if it is ``strict``, wants it absent."""

    user: Name | None = None
    client_id: Name | None = None
    address: Name | None = None
    strict: bool = False

    def matches(self, entity: QuotaEntity) -> bool:
        """Return whether the filter chooses the entity."""
        wanted = (self.user, self.client_id, self.address)
        return all(
            name == found or (name is None and not self.strict)
            for name, found in zip(wanted, entity, strict=True)
        )


_NAMED = "named"

_Form = tuple[str | None, str | None]

_PRECEDENCE: tuple[_Form, ...] = (
    (_NAMED, _NAMED),
    (_NAMED, DEFAULT_ENTITY),
    (_NAMED, None),
    (DEFAULT_ENTITY, _NAMED),
    (DEFAULT_ENTITY, DEFAULT_ENTITY),
    (DEFAULT_ENTITY, None),
    (None, _NAMED),
    (None, DEFAULT_ENTITY),
)
"""A quota's user and client id may be these, the most special ones first (KIP-55)."""


class KeyQuotas:
    """It has all quotas of one key of users and client ids, and finds the one that counts: the
    most special one that names both.

    Whoever has thousands of them changes some, and not all: brokers do so between two requests.
    """

    __slots__ = ("_forms",)

    def __init__(self) -> None:
        self._forms: dict[_Form, dict[_Form, tuple[QuotaEntity, float]]] = {}
        """The quotas by principal and client id, those of each form apart, in the order in which
        they count."""

    def __len__(self) -> int:
        return sum(map(len, self._forms.values()))

    def put(self, entity: QuotaEntity, value: float) -> None:
        """Have this quota from now on."""
        form, place = _places(entity)
        if form not in self._forms:
            forms = {**self._forms, form: {}}
            self._forms = {each: forms[each] for each in _PRECEDENCE if each in forms}
        self._forms[form][place] = entity, value

    def drop(self, entity: QuotaEntity) -> None:
        """Have no quota of this entity from now on."""
        form, place = _places(entity)
        quotas = self._forms.get(form)
        if quotas is not None:
            quotas.pop(place, None)
            if not quotas:
                del self._forms[form]

    def find(self, principal: str, client_id: str) -> tuple[QuotaEntity, float] | None:
        """Return the quota that counts for a principal, ``User:name``: whose it is, and how much;
        None where there is none."""
        for (user, client), quotas in self._forms.items():
            found = quotas.get(
                (
                    principal if user == _NAMED else user,
                    client_id if client == _NAMED else client,
                )
            )
            if found is not None:
                return found
        return None


def _places(entity: QuotaEntity) -> tuple[_Form, _Form]:
    """Return the form of an entity's names, and its principal with its client id."""
    user, client_id, _ = entity
    form = user and _NAMED, client_id and _NAMED  # the default is empty, and stays
    return form, (f"{USER}{user}" if user else user, client_id)


def _check_name(what: str, name: str | None) -> None:
    if name is not None and (len(name) > PRINCIPAL_CHARS_MAX or not name.isprintable()):
        raise InvalidRequestError(f"{what} {name[:64]!r}: not printable text, or too long")

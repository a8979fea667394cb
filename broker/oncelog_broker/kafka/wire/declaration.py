"""A message of Kafka declares its fields by this: kind on the wire, versions, default.

The classes in ``messages`` are generated from Kafka's schemas and use nothing else. What the words
of a declaration mean is Kafka's (its ``README.md`` of messages, KIP-482):

* A field is on the wire from version ``since`` to ``until``. In any other version it has its
  default.
* A ``nullable`` field may be None from that version on.
* A field with a ``tag`` stands behind the others, with its number, and only if it is not its
  default.
* An ``ignorable`` field may be left out in a version that does not have it, whatever its value.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

VERSION_MAX: Final = 2**15 - 1
"""No message has a version above this; as the end of a range it means "and all later ones"."""

NEVER: Final = VERSION_MAX + 1
"""It stands for a version that does not come."""

NO_UUID: Final = bytes(16)
"""It stands for an id that is not known."""

DECLARED: Final = "wire"
"""The declaration stands under this key in the metadata of a dataclass field."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """It says how one field travels."""

    kind: str
    """It is a word of Kafka's schemas, such as ``int32``, ``string`` or ``records``; ``struct`` for
    a class of its own. Brackets before it mean an array: ``[]int32``."""
    since: int
    until: int
    nullable: int
    tag: int
    """-1: it has none."""
    ignorable: bool

    def is_in(self, version: int) -> bool:
        """Return whether this version has the field."""
        return self.since <= version <= self.until


def wire(
    kind: str,
    since: int,
    until: int = VERSION_MAX,
    *,
    default: Any = dataclasses.MISSING,
    factory: Callable[[], Any] | None = None,
    nullable: int = NEVER,
    tag: int = -1,
    ignorable: bool = False,
    secret: bool = False,
) -> Any:
    """Declare one field of a message.

    :param default: the field has it where nothing else is said; or ``factory`` makes it.
    :param nullable: from this version on the field may be None.
    :param secret: it may be a password, and is left out of the message's ``repr``.
    """
    metadata = {DECLARED: Declaration(kind, since, until, nullable, tag, ignorable)}
    if factory is not None:
        return dataclasses.field(default_factory=factory, metadata=metadata, repr=not secret)
    return dataclasses.field(default=default, metadata=metadata, repr=not secret)


class KafkaMessage:
    """It is what an answer, or data within other data, is made of."""

    __slots__ = ()

    versions: ClassVar[tuple[int, int]]
    """Kafka's schema has the versions from and to."""
    flexible_since: ClassVar[int]
    """From this version on lengths are varints, and fields may have tags."""


class KafkaRequest(KafkaMessage):
    """It is what a client asks."""

    __slots__ = ()

    api_key: ClassVar[int]
    response: ClassVar[type[KafkaMessage]]
    """It is answered by a message of this class, in the same version."""

"""A plan says how a class of Kafka's messages travels in one version; the codec is made from it."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, cast

from oncelog_broker.kafka.wire.declaration import DECLARED, Declaration, KafkaMessage
from oncelog_protocol.errors import LocalProtocolError

FIXED: Final = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "uint32": ("I", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}
"""Kinds of a fixed size: (letter of ``struct``, bytes)."""


@dataclass(frozen=True, slots=True, eq=False)
class FieldPlan:
    """It says how one field, or one item of an array, travels."""

    name: str
    label: str
    kind: str
    is_array: bool
    is_present: bool
    """Whether the version has the field."""
    flexible: bool
    nullable: bool
    ignorable: bool
    tag: int
    make_default: Callable[[], Any]
    struct: StructPlan | None
    """It is set where the field, or an item, is a structure."""

    @property
    def is_fixed(self) -> bool:
        """Return whether every value takes the same number of bytes."""
        return not self.is_array and self.kind in FIXED

    @property
    def format(self) -> str:
        """Return the letter of ``struct`` for a kind of a fixed size."""
        return FIXED[self.kind][0]

    @property
    def bytes_min(self) -> int:
        """Return how many bytes the smallest value takes."""
        if self.is_fixed:
            return FIXED[self.kind][1]
        if self.struct is not None and not self.is_array:
            return 1 if self.nullable else self.struct.bytes_min
        if self.flexible:
            return 1
        return 2 if self.kind == "string" and not self.is_array else 4

    def item(self) -> FieldPlan:
        """Return the plan of an item of this array."""
        return dataclasses.replace(
            self, label=f"{self.label}[]", is_array=False, nullable=False, tag=-1
        )


@dataclass(frozen=True, slots=True, eq=False)
class StructPlan:
    """It says how one structure travels in one version."""

    cls: type
    flexible: bool
    fields: tuple[FieldPlan, ...]

    @property
    def bytes_min(self) -> int:
        """Return how many bytes the smallest of its kind takes."""
        plain = (f.bytes_min for f in self.fields if f.is_present and f.tag < 0)
        return sum(plain) + self.flexible

    def runs(self) -> Iterator[list[FieldPlan]]:
        """Yield all fields in order; those of a fixed size that follow each other come together."""
        return _together(self.fields)

    def written(self) -> Iterator[list[FieldPlan]]:
        """Yield the fields that stand on the wire without a tag, as ``runs`` does."""
        return _together(tuple(f for f in self.fields if f.is_present and f.tag < 0))


def _together(fields: tuple[FieldPlan, ...]) -> Iterator[list[FieldPlan]]:
    run: list[FieldPlan] = []
    for field in fields:
        if field.is_fixed and field.is_present and field.tag < 0:
            run.append(field)
            continue
        if run:
            yield run
            run = []
        yield [field]
    if run:
        yield run


def plan_of(cls: type[KafkaMessage], version: int) -> StructPlan:
    """Return the plan of a message in ``version``.

    :raises LocalProtocolError: its schema has no such version.
    """
    first, last = cls.versions
    if not first <= version <= last:
        raise LocalProtocolError(f"{cls.__name__}: no version {version}, but {first} to {last}")
    of_class: Any = cls
    return _struct_plan(of_class, version, version >= cls.flexible_since)


@cache
def _struct_plan(cls: type, version: int, flexible: bool) -> StructPlan:
    hints = typing.get_type_hints(cls)
    return StructPlan(
        cls,
        flexible,
        tuple(
            _field_plan(field, hints[field.name], f"{cls.__name__}.{field.name}", version, flexible)
            for field in dataclasses.fields(cls)
        ),
    )


def _field_plan(
    field: dataclasses.Field[Any], hint: Any, label: str, version: int, flexible: bool
) -> FieldPlan:
    declared: Declaration = field.metadata[DECLARED]
    kind = declared.kind.removeprefix("[]")
    inner = _class_in(hint) if kind == "struct" else None
    default, factory = field.default, field.default_factory
    make = (lambda: default) if factory is dataclasses.MISSING else factory
    return FieldPlan(
        name=field.name,
        label=label,
        kind=kind,
        is_array=declared.kind.startswith("[]"),
        is_present=declared.is_in(version),
        flexible=flexible,
        nullable=version >= declared.nullable,
        ignorable=declared.ignorable,
        tag=declared.tag,
        make_default=make,
        struct=None if inner is None else _struct_plan(inner, version, flexible),
    )


def _class_in(hint: Any) -> type:
    """Return the class within ``list[T]``, ``T | None``, or both."""
    while not dataclasses.is_dataclass(hint):
        args = [each for each in typing.get_args(hint) if each is not types.NoneType]
        hint = args[0]
    return cast(type, hint)

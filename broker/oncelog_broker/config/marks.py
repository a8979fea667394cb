"""Marks are properties of a setting: it may change while the broker runs, it may not be seen.

They stand in the annotations of the model's fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeVar

from pydantic.fields import FieldInfo

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark stands for one property of a setting."""

    name: str


DYNAMIC = Mark("dynamic")
CLUSTER_WIDE = Mark("cluster wide")
SECRET = Mark("secret")

Dynamic = Annotated[T, DYNAMIC]
"""Such a setting may change while the broker runs (KIP-226)."""
ClusterWide = Annotated[T, DYNAMIC, CLUSTER_WIDE]
"""Such a setting may change only for all brokers at once: they must agree, or take over from each
other."""
Secret = Annotated[T, SECRET]
"""The value of such a setting is never shown or logged."""


def is_dynamic(field: FieldInfo) -> bool:
    """Return whether a setting may change while the broker runs."""
    return DYNAMIC in field.metadata


def is_cluster_wide(field: FieldInfo) -> bool:
    """Return whether a dynamic setting may only be set for all brokers."""
    return CLUSTER_WIDE in field.metadata


def is_secret(field: FieldInfo) -> bool:
    """Return whether the value of a setting is masked wherever it is shown."""
    return SECRET in field.metadata

"""What is known of a setting beside its type: whether it may change while the broker runs, and
whether its value may be seen. Marks stand in the annotations of the model's fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeVar

from pydantic.fields import FieldInfo

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Mark:
    """One property of a setting."""

    name: str


DYNAMIC = Mark("dynamic")
CLUSTER_WIDE = Mark("cluster wide")
SECRET = Mark("secret")

Dynamic = Annotated[T, DYNAMIC]
"""A setting that may change while the broker runs (KIP-226)."""
ClusterWide = Annotated[T, DYNAMIC, CLUSTER_WIDE]
"""One that may change so for all brokers alone: they must agree, or take over from each other."""
Secret = Annotated[T, SECRET]
"""A setting whose value is never shown or logged."""


def is_dynamic(field: FieldInfo) -> bool:
    """Whether a setting may change while the broker runs."""
    return DYNAMIC in field.metadata


def is_cluster_wide(field: FieldInfo) -> bool:
    """Whether a dynamic setting may only be set for all brokers."""
    return CLUSTER_WIDE in field.metadata


def is_secret(field: FieldInfo) -> bool:
    """Whether the value of a setting is masked wherever it is shown."""
    return SECRET in field.metadata

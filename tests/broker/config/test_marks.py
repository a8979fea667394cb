"""Marks of fields: found on the model, in whatever order they stand."""

from __future__ import annotations

from pydantic import BaseModel

from oncelog_broker.config import BrokerConfig
from oncelog_broker.config.marks import Dynamic, Secret, is_dynamic, is_secret


class Marked(BaseModel):
    plain: int = 1
    moving: Dynamic[int] = 1
    both: Dynamic[Secret[str]] = ""


def test_marks_are_found() -> None:
    fields = Marked.model_fields
    assert [is_dynamic(fields[key]) for key in fields] == [False, True, True]
    assert [is_secret(fields[key]) for key in fields] == [False, False, True]


def test_what_would_take_a_restart_is_not_dynamic() -> None:
    fields = BrokerConfig.model_fields
    assert not any(is_dynamic(fields[key]) for key in ("broker_id", "log_dirs", "listeners"))

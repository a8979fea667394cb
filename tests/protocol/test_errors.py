"""A client decides from the code of an error, by this table."""

from __future__ import annotations

import inspect
import re

import pytest

from oncelog_protocol import errors
from oncelog_protocol.errors import ERRORS, ApiError, Kind, error_for
from support.messages import all_message_classes

CODES = sorted(ERRORS)


def api_errors() -> list[type[ApiError]]:
    return [
        item
        for item in vars(errors).values()
        if isinstance(item, type) and issubclass(item, ApiError) and item is not ApiError
    ]


def test_the_table_holds_every_class_and_no_code_twice() -> None:
    classes = api_errors()
    assert len({cls.code for cls in classes}) == len(classes) == len(ERRORS)
    assert 0 not in ERRORS


def test_names_are_unique_and_follow_from_the_class() -> None:
    names = [cls.name for cls in api_errors()]
    assert len(set(names)) == len(names)
    for cls in api_errors():
        assert re.fullmatch("[A-Z]+(_[A-Z]+)*", cls.name)
        assert cls.name.replace("_", "").lower() in cls.__name__.lower()


@pytest.mark.parametrize("code", CODES)
def test_every_error_says_when_it_is_returned(code: int) -> None:
    doc = inspect.cleandoc(ERRORS[code].__doc__ or "")
    assert len(doc) > 20
    assert doc.endswith(".")


@pytest.mark.parametrize("code", CODES)
def test_codes_fit_their_field(code: int) -> None:
    assert -(2**15) <= code < 2**15


def test_what_may_have_had_an_effect_is_known_by_name() -> None:
    # A longer list is a promise taken back, a shorter one a promise made: both need thought.
    indefinite = {cls.name for cls in api_errors() if not cls.definite}
    assert indefinite == {
        "UNKNOWN_SERVER_ERROR",
        "NOT_LEADER_OR_FOLLOWER",
        "REQUEST_TIMED_OUT",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "STORAGE_ERROR",
    }


@pytest.mark.parametrize("code", CODES)
def test_error_for_makes_the_class_of_a_code(code: int) -> None:
    error = error_for(code, "what happened")
    assert type(error) is ERRORS[code]
    assert str(error) == "what happened"
    assert error.retriable == (error.kind is Kind.RETRIABLE)


def test_an_error_without_a_message_explains_itself() -> None:
    assert "CRC" in str(error_for(2))


def test_a_code_of_a_newer_release_is_told_and_taken_as_indefinite() -> None:
    error = error_for(12345, "from the future")
    assert isinstance(error, errors.UnknownServerError)
    assert "12345" in str(error)
    assert not error.definite


def test_errors_that_messages_name_exist() -> None:
    known = {cls.name for cls in api_errors()}
    for cls in all_message_classes():
        named = re.findall(r"\b[A-Z]{3,}_[A-Z_]+\b", cls.__doc__ or "")
        assert known.issuperset(named), f"{cls.__name__} names {set(named) - known}"


def test_protocol_errors_are_no_answers_of_a_broker() -> None:
    assert not issubclass(errors.LocalProtocolError, ApiError)
    assert not issubclass(errors.RemoteProtocolError, errors.LocalProtocolError)
    assert issubclass(errors.RemoteProtocolError, errors.ProtocolError)

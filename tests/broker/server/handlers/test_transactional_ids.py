"""Some transactional ids may be used, by some principals."""

from __future__ import annotations

import pytest

from oncelog_broker.server.authorizer import DESCRIBE, TRANSACTIONAL_ID, WRITE, AllowAllAuthorizer
from oncelog_broker.server.handlers.transactional_ids import check_transactional_id
from oncelog_protocol.errors import InvalidRequestError, TransactionalIdAuthorizationFailedError
from support.server import Only, make_context


@pytest.mark.parametrize("name", ["", "__ordinals"])
def test_names_of_nobody(name: str) -> None:
    with pytest.raises(InvalidRequestError):
        check_transactional_id(AllowAllAuthorizer(), make_context(), name)


def test_only_who_may() -> None:
    authorizer = Only((WRITE, TRANSACTIONAL_ID, "mine"))
    check_transactional_id(authorizer, make_context(), "mine")
    with pytest.raises(TransactionalIdAuthorizationFailedError):
        check_transactional_id(authorizer, make_context(), "other")
    with pytest.raises(TransactionalIdAuthorizationFailedError):
        check_transactional_id(authorizer, make_context(), "mine", DESCRIBE)

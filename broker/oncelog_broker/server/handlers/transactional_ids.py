"""All handlers of transactions ask here first whether a transactional id may be used.

The coordinators' own name (``__ordinals``) and the empty one are nobody's.
"""

from __future__ import annotations

from oncelog_broker.server.authorizer import TRANSACTIONAL_ID, WRITE, Authorizer
from oncelog_broker.server.request import RequestContext
from oncelog_protocol.errors import InvalidRequestError, TransactionalIdAuthorizationFailedError
from oncelog_protocol.messages.shared_transactions import ORDINAL_KEY


def check_transactional_id(
    authorizer: Authorizer, context: RequestContext, transactional_id: str, operation: str = WRITE
) -> None:
    """Return when the principal may do ``operation`` under the id.

    :raises InvalidRequestError: an empty or reserved id.
    :raises TransactionalIdAuthorizationFailedError: it may not.
    """
    if not transactional_id:
        raise InvalidRequestError("a transactional id is not empty")
    if transactional_id == ORDINAL_KEY:
        raise InvalidRequestError(f"{ORDINAL_KEY} is reserved")
    if not authorizer.authorize(context, operation, TRANSACTIONAL_ID, transactional_id):
        raise TransactionalIdAuthorizationFailedError(
            f"may not {operation} transactional id {transactional_id!r}"
        )

"""This module makes a denial say what is missing, and by which command it would be allowed.

A broker's denial names the right and nothing else. The client knows what it asked for, and as whom
the brokers know it, so nothing is told here that the asker has not named itself: what is hidden
looks as if it were not there before anything is denied.
"""

from __future__ import annotations

import shlex

from oncelog_protocol.acls import (
    CLUSTER,
    CLUSTER_NAME,
    GROUP,
    IDEMPOTENT_WRITE,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
)
from oncelog_protocol.errors import (
    ApiError,
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)
from oncelog_protocol.identity import Recognition

OPTIONS = {TOPIC: "--topic", GROUP: "--group", TRANSACTIONAL_ID: "--transactional-id"}

_SETS = {
    (WRITE, TOPIC): "--producer",
    (WRITE, TRANSACTIONAL_ID): "--producer",
    (READ, TOPIC): "--consumer",
    (READ, GROUP): "--consumer",
}
"""Who needs these needs what else goes with them."""

SOMEBODY = "User:NAME"
"""It stands for a principal that a broker of an older release does not tell."""

SOME_TOPIC = "TOPIC"

_TYPES: dict[type[ApiError], str] = {
    TopicAuthorizationFailedError: TOPIC,
    GroupAuthorizationFailedError: GROUP,
    ClusterAuthorizationFailedError: CLUSTER,
    TransactionalIdAuthorizationFailedError: TRANSACTIONAL_ID,
}


def explained(
    error: ApiError, principal: str, operation: str, name: str = CLUSTER_NAME
) -> ApiError:
    """Return a denial that says what is missing and what would allow it; any other error as it is.

    :param principal: as whom the brokers know this client; "" if nobody has said it.
    :param operation: what was asked for.
    :param name: of the topic, group or transactional id that the error is about.
    """
    resource_type = _TYPES.get(type(error))
    if resource_type is None:
        return error
    who = principal or SOMEBODY
    if operation == IDEMPOTENT_WRITE:
        command = allowing_command(who, WRITE, TOPIC, SOME_TOPIC)
        return type(error)(f"may not WRITE any topic: {command}")
    kind = resource_type.lower().replace("_", " ")
    resource = "the cluster" if resource_type == CLUSTER else f"{kind} {name}"
    command = allowing_command(who, operation, resource_type, name)
    return type(error)(f"may not {operation} {resource}: {command}")


def or_hidden(recognition: Recognition, topic: str) -> str:
    """Return what an error says besides "does not exist": a hidden topic looks the same (Q3).

    It is the same for both, so it tells nobody which of the two it is. "" where no ACLs decide.
    """
    if recognition.authorizer != "acl" or not recognition.principal:
        return ""
    command = allowing_command(recognition.principal, WRITE, TOPIC, topic)
    return f", or {recognition.principal} may not see it: {command} (--consumer to read it)"


def allowing_command(principal: str, operation: str, resource_type: str, name: str) -> str:
    """Return the command that allows a principal an operation on a resource."""
    words = ["oncelog", "acls", "add", "--allow", principal]
    together = _SETS.get((operation, resource_type))
    words += ["--operation", operation] if together is None else [together]
    words += ["--cluster"] if resource_type == CLUSTER else [OPTIONS[resource_type], name]
    return shlex.join(words)

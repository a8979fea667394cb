"""Who is denied something is told the command that would allow it."""

from __future__ import annotations

import shlex

from oncelog_protocol.acls import CLUSTER, GROUP, READ, TOPIC, TRANSACTIONAL_ID, WRITE

OPTIONS = {TOPIC: "--topic", GROUP: "--group", TRANSACTIONAL_ID: "--transactional-id"}

_SETS = {
    (WRITE, TOPIC): "--producer",
    (WRITE, TRANSACTIONAL_ID): "--producer",
    (READ, TOPIC): "--consumer",
    (READ, GROUP): "--consumer",
}
"""Who needs these needs what else goes with them."""


def allowing_command(principal: str, operation: str, resource_type: str, name: str) -> str:
    """Return the command that allows a principal an operation on a resource."""
    words = ["oncelog", "acls", "add", "--allow", principal]
    together = _SETS.get((operation, resource_type))
    words += ["--operation", operation] if together is None else [together]
    words += ["--cluster"] if resource_type == CLUSTER else [OPTIONS[resource_type], name]
    return shlex.join(words)

"""Topics that a client asks about may be created here (off by default).

The setting is ``auto_create_topics_enable``. The broker asks the controller, with the broker's
defaults for partitions and replication factor, and answers the client's question without waiting. A
name is asked for once at a time, and only so many at once: a client that asks for random names must
not bury the controller.
"""

from __future__ import annotations

from oncelog_broker.server.access import CREATE_TOPIC
from oncelog_broker.server.audit import DONE, Audit, AuditedPeer, named
from oncelog_broker.server.authorizer import TOPIC, Authorizer
from oncelog_broker.server.controller_channel import ControllerChannel
from oncelog_broker.server.request import RequestContext
from oncelog_protocol.errors import NO_ERROR, OncelogError, TopicAlreadyExistsError, error_for
from oncelog_protocol.messages.admin import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from oncelog_runtime.structured_logging import get_logger
from oncelog_runtime.tasks import Tasks

logger = get_logger(__name__)

PENDING_MAX = 64
CREATE_TIMEOUT_MS = 10_000


async def create_topic(channel: ControllerChannel, topic: CreatableTopic) -> int:
    """Ask the controller for a topic; return 0 when there is one, or the first error code.

    :raises OSError, TimeoutError, OncelogError: as ``ControllerChannel.call``.
    """
    response: CreateTopicsResponse = await channel.call(
        CreateTopicsRequest([topic], CREATE_TIMEOUT_MS), timeout_s=CREATE_TIMEOUT_MS / 1000 + 2
    )
    codes = [response.error_code, *(t.error_code for t in response.topics)]
    return next((c for c in codes if c not in (NO_ERROR, TopicAlreadyExistsError.code)), NO_ERROR)


class TopicCreation:
    """It asks the controller for topics, each name once at a time."""

    def __init__(
        self,
        channel: ControllerChannel,
        tasks: Tasks,
        authorizer: Authorizer,
        audit: Audit | None = None,
    ) -> None:
        self._channel = channel
        self._tasks = tasks
        self._authorizer = authorizer
        self._audit = Audit() if audit is None else audit
        self._pending: set[str] = set()

    def request(self, context: RequestContext, topic: str) -> bool:
        """Have ``topic`` created; return false when the principal may not or too many are
        pending."""
        if not CREATE_TOPIC.allows(self._authorizer, context, topic):
            return False
        if topic in self._pending:
            return True
        if len(self._pending) >= PENDING_MAX:
            return False
        self._pending.add(topic)
        reason = CREATE_TOPIC.decision(self._authorizer, context, topic).reason
        creating = self._create(topic, AuditedPeer.of(context), reason)
        self._tasks.spawn(f"create topic {topic}", creating)
        return True

    async def _create(self, topic: str, peer: AuditedPeer, reason: str) -> None:
        try:
            code = await create_topic(self._channel, CreatableTopic(topic, -1, -1))
            if code:
                logger.warning("topic_auto_creation_refused", topic=topic, error_code=code)
            else:
                logger.info("topic_auto_created", topic=topic)
            outcome = error_for(code).name if code else DONE
            resource = named(TOPIC, topic)
            self._audit.changed(peer, "METADATA", resource, "", outcome, reason)
        except (OSError, TimeoutError, OncelogError) as exc:
            logger.warning("topic_auto_creation_failed", topic=topic, error=exc)
        finally:
            self._pending.discard(topic)

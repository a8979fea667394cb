"""In a secured run users work whose rights are taken and given back while they do.

*Subjects* write to the workload's topic and read it, each as a user of its own. The *warden*, a
super user on a host that no fault cuts off, changes what they may: one change after the other, each
asked for until it is acknowledged. What was changed and who was refused is noted in ``rights``.

Rules: a subject takes the password that its user has when it begins a life. Now and then it keeps
the old one when that is refused, as a thief would. After a change whose answer was lost the warden
waits, so that nothing of it is still under way when the opposite is asked for.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from oncelog import Admin, Consumer, Producer
from oncelog.errors import (
    AuthenticationFailedError,
    ClusterAuthorizationFailedError,
    OncelogError,
    TopicAuthorizationFailedError,
)
from oncelog.history_events import HistoryEvent, HistoryRecorder
from oncelog_broker.app import Broker
from oncelog_broker.server.request import RequestContext
from oncelog_protocol.acl_state import AclDecision
from oncelog_protocol.acls import ALLOW, DENY, LITERAL, READ, TOPIC, WRITE, AclBindingFilter
from oncelog_protocol.connection import IncomingRequest
from oncelog_protocol.errors import NO_ERROR, DuplicateResourceError, ResourceNotFoundError
from oncelog_protocol.messages.acls import CreateAclsRequest, DeleteAclsRequest
from oncelog_protocol.messages.base import Request
from oncelog_protocol.messages.security import UpdateSecurityRequest
from oncelog_protocol.messages.users import (
    CREATE,
    DELETE,
    SET_PASSWORD,
    AlterUsersRequest,
    UserWish,
)
from oncelog_protocol.sasl.user import CredentialRow
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import SeededEntropy
from simulation.checkers.no_alarm_in_the_logs import LogLine
from simulation.cluster import SimCluster
from simulation.history import value_of
from simulation.loop import Process, ProcessKilledError
from simulation.rights import GRACE_S, PASSWORD, Change, Refusal, Rights
from simulation.secured import APP, GUEST, RIGHTS, SUBJECTS, WARDEN, acl, credential, security_of
from simulation.workload import TOPIC as TOPIC_OF_ALL

logger = logging.getLogger("simulation")

ACKNOWLEDGED_WITHIN_S = 10.0
CHANGED_WITHIN_S = 60.0
"""A change is acknowledged at one of several attempts: no fault is in the way for so long."""
LIMBO_S = 4.0
"""After a change whose answer was lost: what is left of it is over by then."""

DETECTION_S = 5.0
"""A broker that has lost touch notices it within this: it looks, and waits for two answers."""

ORDERS_KEPT_MAX = 1000
AUTHENTICATION_FAILED = re.compile(r"^authentication_failed .*peer=([\d.]+):")
LOOK_S = 0.03
SLACK_S = 0.5
"""Clients look this often whether an answer is overdue, and hand over what they were given."""

FETCH_WAITS_MS = (200, 2500, 2500)
"""Mostly a fetch waits for longer than a change takes, and for more than there will be."""
CRASH_EVERY_S = 10.0
REFUSALS = (
    AuthenticationFailedError,
    TopicAuthorizationFailedError,
    ClusterAuthorizationFailedError,
)
EXPECTED = (OncelogError, OSError, TimeoutError)


class _Warden(Admin):
    """It sends what the public admin client has no method for."""

    async def ask(self, request: Request, timeout_ms: int) -> Any:
        """Return the controller's answer."""
        return await self._on_controller(request, timeout_ms)


class SecurityWorkload:
    """It has the warden and the subjects of a run; without ``secured`` nobody."""

    def __init__(
        self,
        cluster: SimCluster,
        entropy: SeededEntropy,
        sink: Callable[[HistoryEvent], None],
        partitions: list[TopicPartition],
    ) -> None:
        self.cluster = cluster
        self.sink = sink
        self.partitions = partitions
        knobs = cluster.knobs
        patience_s = knobs.request_timeout_ms / 1000
        self.rights = Rights(
            patience_s=patience_s + SLACK_S,
            fetch_patience_s=patience_s + max(FETCH_WAITS_MS) / 1000 + SLACK_S,
        )
        self.failures: list[BaseException] = []
        """What a subject raised that it must not."""
        self.over = False
        self.users = (*SUBJECTS, GUEST) if knobs.secured else ()
        self.allowed = {(user, right): user != GUEST for user in self.users for right in RIGHTS}
        """What was asked for last, by user and right."""
        self.passwords = dict.fromkeys(self.users, 1)
        """The number of the password that each user has."""
        self.exists = dict.fromkeys(self.users, True)
        self.subjects = [
            Subject(self, user, entropy.fork(f"subject-{user}")) for user in self.users
        ]
        self._entropy = entropy.fork("warden")
        self._asked = 0
        self.counts: Counter[str] = Counter()
        """What has happened how often, for coverage."""
        self._turn = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._lacking: dict[Change, list[Broker]] = {}
        """Brokers that did not know a change when it was acknowledged."""
        self._orders: deque[tuple[int, UpdateSecurityRequest]] = deque(maxlen=ORDERS_KEPT_MAX)
        if self.users:
            cluster.on_broker.append(self._listen)
        for user in self.users:
            self._begins(f"{user}.1", PASSWORD, True)
            for right in RIGHTS:
                self._begins(user, right, self.allowed[user, right])

    def _begins(self, who: str, right: str, granted: bool) -> None:
        self.rights.add(Change(who, right, granted, 0.0, 0.0, 0.0))

    def _listen(self, broker_id: int, broker: Broker) -> None:
        """Keep the orders of a broker, and note when it refuses the application something, which
        may do everything."""
        decide, dispatch = broker.acls.decision, broker.dispatcher.dispatch

        def decision(context: RequestContext, *asked: Any) -> AclDecision:
            found = decide(context, *asked)
            if not found.allowed and context.principal == f"User:{APP}":
                self._app_refused(" ".join(map(str, asked)), found.reason)
            return found

        def keeping(context: RequestContext, incoming: IncomingRequest, respond: Any) -> None:
            if isinstance(incoming.message, UpdateSecurityRequest):
                self._orders.append((broker_id, incoming.message))
            dispatch(context, incoming, respond)

        broker.acls.decision = decision  # type: ignore[assignment,method-assign]
        broker.dispatcher.dispatch = keeping  # type: ignore[method-assign]

    def _app_refused(self, what: str, why: str) -> None:
        now_s = self.cluster.loop.now_s
        self.rights.refusals.append(Refusal(APP, what, now_s, now_s, why))

    def orders_to(self, broker: Broker) -> list[UpdateSecurityRequest]:
        """Return what controllers have told a broker in its present life, oldest first."""
        return [
            order
            for broker_id, order in self._orders
            if broker_id == broker.broker_id and order.broker_epoch == broker.broker_epoch
        ]

    def judge_logs(self, lines: Iterable[LogLine]) -> None:
        """Note whom brokers did not believe that is no subject: everybody else has a password that
        nobody changes."""
        hosts = self.cluster.network.hosts
        subjects = {hosts[each.host].address for each in self.subjects if each.host in hosts}
        for line in lines:
            found = AUTHENTICATION_FAILED.search(line.text)
            if found is not None and found[1] not in subjects:
                refusal = Refusal(found[1], PASSWORD, line.time_s, line.time_s, line.text)
                self.rights.refusals.append(refusal)

    # ---- life

    def start(self) -> None:
        """Let the subjects work until ``stop``."""
        loop = self.cluster.loop
        if self.users:
            self._tasks.append(loop.create_task(self._watch(), name="rights"))
        for subject in self.subjects:
            self._tasks.append(loop.create_task(subject.live(), name=subject.host))

    async def restore(self, *, timeout_s: float) -> None:
        """Give everybody back what they had, and see it in use.

        :raises TimeoutError: a change is not acknowledged, or somebody is still refused.
        """
        async with asyncio.timeout(timeout_s):
            for user in self.users:
                if not self.exists[user]:
                    await self.make_user(user)
                for right in RIGHTS:
                    if self.allowed[user, right] != (user != GUEST):
                        await self.change_right(user, right, granted=user != GUEST)
        began_s = self.cluster.loop.now_s
        for subject in self.subjects:
            if subject.user != GUEST:
                await subject.has_worked(began_s, timeout_s=timeout_s)

    async def stop(self, *, timeout_s: float) -> None:
        """Let each subject end. :raises TimeoutError: one does not."""
        self.over = True
        if not self._tasks:
            return
        _, pending = await asyncio.wait(self._tasks, timeout=timeout_s)
        if pending:
            names = ", ".join(sorted(task.get_name() for task in pending))
            raise TimeoutError(f"{names} did not end within {timeout_s:g} s")
        for task in self._tasks:
            task.result()

    # ---- what the warden does

    async def change_right(
        self, user: str, right: str, *, granted: bool, by_deny: bool = False
    ) -> None:
        """Give a right, or take it; ``by_deny`` leaves the entry that allows it, and denies it."""
        allow, deny = acl(user, TOPIC_OF_ALL, right), acl(user, TOPIC_OF_ALL, right, DENY)
        if granted:
            requests: list[Request] = [_taking_back(user, right, DENY), CreateAclsRequest([allow])]
        elif by_deny:
            requests = [CreateAclsRequest([deny])]
        else:
            requests = [_taking_back(user, right, ALLOW)]
        async with self._turn:
            self.allowed[user, right] = granted
            change = self._asks(user, right, granted)
            await self._until_acknowledged(requests, [change])

    async def delete_user(self, user: str) -> None:
        """Delete a user: whoever has authenticated as it is nobody any more."""
        async with self._turn:
            if not self.exists[user]:
                return
            self.exists[user] = False
            change = self._asks(self.holder(user), PASSWORD, False)
            await self._until_acknowledged([AlterUsersRequest([UserWish(user, DELETE)])], [change])

    async def make_user(self, user: str) -> None:
        """Make a user again, with another password."""
        async with self._turn:
            if not self.exists[user]:
                self.exists[user] = True
                await self._set_password(user, CREATE, [])

    async def change_password(self, user: str) -> None:
        """Give a user another password."""
        async with self._turn:
            if self.exists[user]:
                change = self._asks(self.holder(user), PASSWORD, False)
                await self._set_password(user, SET_PASSWORD, [change])

    async def _set_password(self, user: str, action: str, changes: list[Change]) -> None:
        self.passwords[user] += 1
        row = CredentialRow.of(credential(self.password(user), self._entropy))
        changes.append(self._asks(self.holder(user), PASSWORD, True))
        await self._until_acknowledged(
            [AlterUsersRequest([UserWish(user, action, [row])])], changes
        )

    def holder(self, user: str) -> str:
        """Return a user with its present password."""
        return f"{user}.{self.passwords[user]}"

    def password(self, user: str) -> str:
        """Return the present password of a user."""
        return f"{user}-{self.passwords[user]}"

    def _asks(self, who: str, right: str, granted: bool) -> Change:
        change = Change(who, right, granted, self.cluster.loop.now_s)
        self.cluster.loop.trace(f"{'grant' if granted else 'revoke'} {who} {right}")
        self.rights.add(change)
        return change

    async def _until_acknowledged(self, requests: list[Request], changes: list[Change]) -> None:
        """Ask until all of it is acknowledged, whoever waits for it being cancelled or not."""
        asking = self.cluster.loop.create_task(self._ask(requests, changes), name="warden")
        try:
            await asyncio.shield(asking)
        except asyncio.CancelledError:
            await asking  # the next change must not overtake this one
            raise

    async def _ask(self, requests: list[Request], changes: list[Change]) -> None:
        in_doubt = False
        until_s = self.cluster.loop.now_s + CHANGED_WITHIN_S
        for request in requests:
            while not self.over:
                if self.cluster.loop.now_s > until_s:  # the end of a run waits for this
                    raise TimeoutError(f"no change of rights within {CHANGED_WITHIN_S:g} s")
                with suppress(*EXPECTED, ProcessKilledError):
                    version = await self._ask_once(request)
                    break
                in_doubt = True
                await asyncio.sleep(0.5)
            else:
                return
        self._acknowledged(changes, version)
        if in_doubt:
            await asyncio.sleep(LIMBO_S)

    async def _ask_once(self, request: Request) -> int:
        """Return the version of the change, once it was acknowledged."""
        cluster = self.cluster
        self._asked += 1
        process = cluster.client_process("warden")
        entropy = self._entropy.fork(f"{self._asked}")

        async def ask() -> Any:
            warden = _Warden(cluster.bootstrap, security=security_of(WARDEN), entropy=entropy)
            async with warden:
                return await warden.ask(request, int(ACKNOWLEDGED_WITHIN_S * 1000))

        try:
            async with asyncio.timeout(ACKNOWLEDGED_WITHIN_S + 1):
                response = await process.call(ask(), "warden")
        finally:
            process.kill()
        for result in response.results:
            # An answer that was lost leaves a user made, or deleted, already.
            assert result.error_code in (
                NO_ERROR,
                ResourceNotFoundError.code,
                DuplicateResourceError.code,
            ), result
        version: int = response.version
        return version

    # ---- when changes hold

    def _acknowledged(self, changes: list[Change], version: int) -> None:
        now_s = self.cluster.loop.now_s
        lacking = [each for each in self.cluster.brokers.values() if _known(each) < version]
        for change in changes:
            self.cluster.loop.trace(f"acknowledged {change.who} {change.right} {len(lacking)}")
            self.counts["changes_acknowledged"] += 1
            self.counts["brokers_lacked_a_change"] += bool(lacking)
            change.acked_s = now_s
            change.force_by_s = now_s + (self.lost_touch_s if lacking else GRACE_S)
            if lacking:
                self._lacking[change] = lacking[:]

    @property
    def lost_touch_s(self) -> float:
        """Return for how long a broker may serve that has lost touch."""
        rate = 1 + self.cluster.knobs.clock_rate_spread
        return (self.cluster.knobs.security_stale_max_ms / 1000 + DETECTION_S) * rate

    async def _watch(self) -> None:
        """See which brokers still lack a change, and which of them stand still."""
        while not self.over:
            for change, lacking in list(self._lacking.items()):
                now_s = self.cluster.loop.now_s
                assert change.force_by_s is not None
                if now_s > change.force_by_s:
                    del self._lacking[change]
                elif any(map(self._is_excused, lacking)):
                    change.force_by_s = now_s + self.lost_touch_s
            await asyncio.sleep(LOOK_S)

    def _is_excused(self, broker: Broker) -> bool:
        """Return whether time does not count for a broker: it stands still, or it is cut off
        together with a controller that was deposed, or as that one. Nothing tells those."""
        brokers = self.cluster.brokers
        process = self.cluster.process(broker.broker_id)
        if brokers.get(broker.broker_id) is not broker or process is None:
            return False
        its = brokers.get(broker.image.controller_id)
        newest = max(map(_known, brokers.values()))
        return process.paused or (its is not None and _known(its) < newest)


def _known(broker: Broker) -> int:
    """Return the version that a broker decides by, and authenticates by."""
    return min(broker.acls.version, broker.users.version)


def _taking_back(user: str, right: str, permission: str) -> DeleteAclsRequest:
    return DeleteAclsRequest(
        [AclBindingFilter(TOPIC, LITERAL, TOPIC_OF_ALL, f"User:{user}", "*", right, permission)]
    )


class Subject:
    """It is one user at work, again and again after each crash."""

    def __init__(self, workload: SecurityWorkload, user: str, entropy: SeededEntropy) -> None:
        self.workload = workload
        self.user = user
        self.host = f"client-{user}"
        self.lives = 0
        self._entropy = entropy
        self._sent = 0
        self._password = 1
        self._worked_s = dict.fromkeys(RIGHTS, -1.0)
        """When it last did what needs a right."""

    async def live(self) -> None:
        """Run, crash, run, until the workload is over."""
        workload = self.workload
        cluster = workload.cluster
        while not workload.over:
            self.lives += 1
            if self._entropy.random() < 0.8:  # else with the former one, as a thief would
                self._password = workload.passwords[self.user]
            process: Process = cluster.client_process(self.host)
            crash_s = CRASH_EVERY_S * (0.2 + 1.6 * self._entropy.random())
            life = cluster.loop.create_task(process.call(self._work(), self.host))
            done, _ = await asyncio.wait([life], timeout=crash_s)
            if not (done or workload.over):
                process.kill()
            try:
                await life
            except ProcessKilledError:
                pass
            except Exception as error:
                workload.failures.append(error)
                logger.error("%s raised %r", self.host, error, exc_info=error)
            process.kill()
            await asyncio.sleep(0.3 * self._entropy.random())

    async def has_worked(self, since_s: float, *, timeout_s: float) -> None:
        """Wait until the subject has used each right. :raises TimeoutError: it does not."""
        try:
            async with asyncio.timeout(timeout_s):
                while min(self._worked_s.values()) < since_s:
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise TimeoutError(
                f"{self.user} has worked last at {self._worked_s}, long before {since_s:.3f}"
            ) from None

    async def _work(self) -> None:
        entropy = self._entropy.fork(f"life-{self.lives}")
        async with asyncio.TaskGroup() as group:
            group.create_task(self._produce(entropy.fork("producer")))
            group.create_task(self._consume(entropy.fork("consumer")))

    def _process(self) -> str:
        return f"{self.user}.{self._password}.{self.lives}"

    def _options(self, kind: str, part: int, entropy: SeededEntropy) -> dict[str, Any]:
        cluster = self.workload.cluster
        return {
            "security": security_of(self.user, f"{self.user}-{self._password}"),
            "entropy": entropy.fork(f"{kind}-{part}"),
            "history": HistoryRecorder(
                self._process(),
                self.workload.sink,
                lambda: cluster.loop.now_s,
                client=f"{kind}-{part}",
            ),
            "request_timeout_ms": cluster.knobs.request_timeout_ms,
            "max_block_ms": 3000,
            "connect_timeout_ms": 1000,
        }

    def _refused(self, error: BaseException, right: str, began_s: float) -> None:
        """Note what one was refused for, if it was for want of a right."""
        if isinstance(error, REFUSALS):
            right = PASSWORD if isinstance(error, AuthenticationFailedError) else right
            now_s, name = self.workload.cluster.loop.now_s, type(error).__name__
            refusal = Refusal(self._process(), right, began_s, now_s, name)
            self.workload.counts[f"subject_refused_{right.lower()}"] += 1
            self.workload.cluster.loop.trace(f"refused {self.user} {right}")
            self.workload.rights.refusals.append(refusal)

    async def _produce(self, entropy: SeededEntropy) -> None:
        cluster = self.workload.cluster
        knobs, part = cluster.knobs, 0
        while not self.workload.over:
            part += 1
            producer = Producer(
                cluster.bootstrap,
                clock=cluster.client_clock,
                acks="all",
                enable_idempotence=knobs.idempotent,
                linger_ms=0,
                retry_backoff_ms=knobs.retry_backoff_ms,
                delivery_timeout_ms=knobs.delivery_timeout_ms,
                **self._options("producer", part, entropy),
            )
            began_s = cluster.loop.now_s
            try:
                await producer.start()
                try:
                    while not self.workload.over:
                        began_s = cluster.loop.now_s
                        await self._send(producer, entropy)
                        self._worked_s[WRITE] = began_s
                        await asyncio.sleep(entropy.random() * 0.3)
                finally:
                    await producer.close(timeout_ms=1000)
            except EXPECTED as error:
                self._refused(error, WRITE, began_s)
                await asyncio.sleep(0.1 + 0.3 * entropy.random())

    async def _send(self, producer: Producer, entropy: SeededEntropy) -> None:
        topic, partition = entropy.choice(self.workload.partitions)
        self._sent += 1
        value = value_of(topic, partition, self.user, self._sent) + b"/"
        await producer.send(topic, value=value, partition=partition)

    async def _consume(self, entropy: SeededEntropy) -> None:
        cluster = self.workload.cluster
        part = 0
        while not self.workload.over:
            part += 1
            consumer = Consumer(
                bootstrap_servers=cluster.bootstrap,
                auto_offset_reset=entropy.choice(["earliest", "latest"]),
                fetch_min_bytes=entropy.choice([1, 100_000, 100_000]),
                fetch_max_wait_ms=entropy.choice(FETCH_WAITS_MS),
                **self._options("consumer", part, entropy),
            )
            began_s = cluster.loop.now_s
            try:
                await consumer.start()
                try:
                    consumer.assign(self.workload.partitions)
                    while not self.workload.over:
                        began_s = cluster.loop.now_s
                        if await consumer.getmany(timeout_ms=500, max_records=50):
                            self._worked_s[READ] = began_s
                        if entropy.random() < 1 / 64:
                            await consumer.seek_to_beginning()
                finally:
                    await consumer.close()
            except EXPECTED as error:
                self._refused(error, READ, began_s)
                await asyncio.sleep(0.1 + 0.3 * entropy.random())

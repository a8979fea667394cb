"""A state machine decides what a member of a group does next. Pure.

Rules
-----
* One mutator, ``handle``: a fact in, orders out. What is sent next, the phase says: a join in
  JOINING, a sync in SYNCING, heartbeats while the member is known and nothing else is under way.
* What may follow what is a table (``MOVES``); anything else raises.
* Only a *handover* changes what the application owns, and only the application begins one, inside
  of a poll. A cooperative member keeps what it owns through join and sync, and claims it; it joins
  again as soon as it has given up what the new generation takes from it (KIP-429). An eager one
  gives up everything before it joins.
* A member that the coordinator does not know any more has lost what it owned at that moment:
  others may read it already. It joins anew when the application has been told.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from oncelog.errors import (
    ApiError,
    FencedInstanceIdError,
    IllegalGenerationError,
    Kind,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from oncelog_protocol.errors import ERRORS, MemberIdRequiredError, error_for
from oncelog_protocol.types import TopicPartition

Partitions = tuple[TopicPartition, ...]

TRANSIENT = tuple(
    code
    for code, kind in ERRORS.items()
    if kind.kind is Kind.RETRIABLE
    and code not in (RebalanceInProgressError.code, MemberIdRequiredError.code)
)
"""Errors after which the coordinator is asked the same again, after a pause."""


class MemberPhase(Enum):
    """A member is in one of these phases."""

    OUT = "out"
    """Not a member, and not about to be one before the application comes again."""
    GIVING_UP = "giving up"
    """The application must let go of what it owns; then the member joins."""
    JOINING = "joining"
    SYNCING = "syncing"
    SETTLING = "settling"
    """The assignment is here; the application has not taken notice of it yet."""
    STABLE = "stable"
    FAILED = "failed"
    """Another one has taken over the static instance id: for good."""


MOVES: dict[MemberPhase, tuple[MemberPhase, ...]] = {
    MemberPhase.OUT: (MemberPhase.JOINING, MemberPhase.OUT),
    MemberPhase.GIVING_UP: (
        MemberPhase.JOINING,
        MemberPhase.GIVING_UP,
        MemberPhase.OUT,
        MemberPhase.FAILED,
    ),
    MemberPhase.JOINING: (
        MemberPhase.JOINING,
        MemberPhase.SYNCING,
        MemberPhase.GIVING_UP,
        MemberPhase.OUT,
        MemberPhase.FAILED,
    ),
    MemberPhase.SYNCING: (
        MemberPhase.SETTLING,
        MemberPhase.STABLE,
        MemberPhase.JOINING,
        MemberPhase.GIVING_UP,
        MemberPhase.OUT,
        MemberPhase.FAILED,
    ),
    MemberPhase.SETTLING: (
        MemberPhase.STABLE,
        MemberPhase.JOINING,
        MemberPhase.GIVING_UP,
        MemberPhase.OUT,
        MemberPhase.FAILED,
    ),
    MemberPhase.STABLE: (
        MemberPhase.JOINING,
        MemberPhase.GIVING_UP,
        MemberPhase.OUT,
        MemberPhase.FAILED,
    ),
    MemberPhase.FAILED: (MemberPhase.FAILED,),
}

BEATING = (MemberPhase.GIVING_UP, MemberPhase.SETTLING, MemberPhase.STABLE)
"""Phases in which heartbeats are due: nothing else is asked of the coordinator."""


@dataclass(frozen=True, slots=True)
class Handover:
    """A handover takes partitions from the application first, then gives it others."""

    revoked: Partitions = ()
    lost: bool = False
    """``revoked`` may be others' by now: no commit, and on_lost in place of on_revoked."""
    added: Partitions = ()


# ---------------------------------------------------------------------------------- events


@dataclass(frozen=True, slots=True)
class Wanted:
    """There is a reason to join (again)."""

    reason: str


@dataclass(frozen=True, slots=True)
class JoinSent:
    """A JoinGroup with the present subscription and claims is on its way."""


@dataclass(frozen=True, slots=True)
class MemberIdGiven:
    """The coordinator wants the join again, under this name (KIP-394)."""

    member_id: str


@dataclass(frozen=True, slots=True)
class Joined:
    """The next generation has begun."""

    member_id: str
    generation: int
    is_leader: bool


@dataclass(frozen=True, slots=True)
class Synced:
    """The group's leader gives this to the member."""

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class Refused:
    """A join, a sync, a heartbeat or a commit of this member was refused by the coordinator."""

    code: int
    message: str = ""


@dataclass(frozen=True, slots=True)
class CoordinatorLost:
    """An attempt failed; it may be tried again."""


@dataclass(frozen=True, slots=True)
class HandoverBegan:
    """The application is inside of a poll and goes through the handover that was offered."""


@dataclass(frozen=True, slots=True)
class HandoverDone:
    """The application has gone through the handover."""


@dataclass(frozen=True, slots=True)
class PollOverdue:
    """The application has not come for too long."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Left:
    """The subscription has ended; everything was given up."""


Event = (
    Wanted
    | JoinSent
    | MemberIdGiven
    | Joined
    | Synced
    | Refused
    | CoordinatorLost
    | HandoverBegan
    | HandoverDone
    | PollOverdue
    | Left
)

# ---------------------------------------------------------------------------------- effects


@dataclass(frozen=True, slots=True)
class OfferHandover:
    """The application is to come to a poll, as there is a handover."""


@dataclass(frozen=True, slots=True)
class StopReading:
    """Stop handing out records of these partitions: they are lost."""

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class Tell:
    """Raise this error in the application's next poll."""

    error: Exception


@dataclass(frozen=True, slots=True)
class SendLeave:
    """Tell the coordinator that this member leaves."""

    member_id: str
    reason: str


Effect = OfferHandover | StopReading | Tell | SendLeave


@dataclass(slots=True)
class Membership:
    """A member's state changes only by ``handle``."""

    cooperative: bool = True
    phase: MemberPhase = MemberPhase.OUT
    member_id: str = ""
    generation: int = -1
    is_leader: bool = False
    owned: Partitions = ()
    """The partitions that the application has; also while they are being taken away, until they are
    given up."""
    previous: tuple[Partitions, int] = ((), -1)
    """The last assignment, and its generation."""
    handover: Handover | None = None
    handing_over: bool = False
    reason: str = ""
    """The reason of the join that is under way or comes next."""
    wish: str | None = None
    """A reason to join that came when it could not be followed."""
    _lost_meanwhile: bool = False
    _effects: list[Effect] = field(default_factory=list)

    @property
    def is_member(self) -> bool:
        """Return whether there is a generation to commit in."""
        return self.generation >= 0 and bool(self.member_id)

    @property
    def in_flux(self) -> bool:
        """Return whether the generation is about to change."""
        return self.phase in (MemberPhase.JOINING, MemberPhase.SYNCING)

    def handle(self, event: Event) -> list[Effect]:
        """Take in a fact, and return what to do about it beside what the phase says."""
        self._effects = []
        if self.phase is MemberPhase.FAILED and not isinstance(
            event, (HandoverBegan, HandoverDone)
        ):
            return []
        match event:
            case Wanted(reason):
                self._wanted(reason)
            case JoinSent():
                self.wish = None
            case MemberIdGiven(member_id):
                self.member_id = member_id
                self._move(MemberPhase.JOINING)
            case Joined(member_id, generation, is_leader):
                self.member_id, self.generation = member_id, generation
                self.is_leader = is_leader
                self._move(MemberPhase.SYNCING)
            case Synced(partitions):
                self._synced(partitions)
            case Refused(code, message):
                self._refused(code, message)
            case CoordinatorLost():
                self._retry()
            case HandoverBegan():
                self.handing_over = True
            case HandoverDone():
                self._handed_over()
            case PollOverdue(error):
                self._overdue(error)
            case Left():
                self._leave("the consumer was closed or unsubscribed")
        return self._effects

    def _move(self, phase: MemberPhase) -> None:
        if phase not in MOVES[self.phase]:
            raise AssertionError(f"{self.phase} does not lead to {phase}")
        self.phase = phase

    # ------------------------------------------------------------------------------ joining

    def _wanted(self, reason: str) -> None:
        if self.phase in (MemberPhase.JOINING, MemberPhase.SYNCING) or (
            self.phase is MemberPhase.SETTLING and self.handing_over
        ):
            self.wish = reason
        elif self.phase is MemberPhase.GIVING_UP or (
            self.phase is MemberPhase.OUT and self.handover
        ):
            return  # it joins afterwards in any case
        else:
            self._begin(reason)

    def _begin(self, reason: str) -> None:
        self.reason = reason
        self.handover = None  # of a generation that is over before the application heard of it
        if self.owned and not self.cooperative:
            self._offer(Handover(self.owned))
            self._move(MemberPhase.GIVING_UP)
        else:
            self._move(MemberPhase.JOINING)

    def _synced(self, partitions: Partitions) -> None:
        held = dict.fromkeys(self.owned)
        target = dict.fromkeys(partitions)
        revoked = tuple(tp for tp in held if tp not in target)
        added = tuple(tp for tp in target if tp not in held)
        self.previous = (tuple(target), self.generation)
        if revoked or added:
            self._offer(Handover(revoked, False, added))
            self._move(MemberPhase.SETTLING)
        else:
            self._move(MemberPhase.STABLE)
            self._follow_wish()

    def _follow_wish(self) -> None:
        if self.wish is not None:
            wish, self.wish = self.wish, None
            self._begin(wish)

    # ------------------------------------------------------------------------------ handing over

    def _offer(self, handover: Handover) -> None:
        self.handover = handover
        self._effects.append(OfferHandover())

    def _handed_over(self) -> None:
        handover, self.handover = self.handover, None
        assert handover is not None
        self.handing_over = False
        gone = dict.fromkeys(handover.revoked)
        self.owned = (*(tp for tp in self.owned if tp not in gone), *handover.added)
        lost_meanwhile, self._lost_meanwhile = self._lost_meanwhile, False
        if self.phase in (MemberPhase.OUT, MemberPhase.FAILED):
            if self.owned:
                self._offer(Handover(self.owned, lost=True))
        elif lost_meanwhile:
            self._lose("the group went on without it")
        elif self.phase is MemberPhase.GIVING_UP:
            self._move(MemberPhase.JOINING)
        else:
            self._move(MemberPhase.STABLE)
            if handover.revoked:
                self._begin(f"gave up {len(handover.revoked)} partitions")
            else:
                self._follow_wish()

    # ------------------------------------------------------------------------------ losing

    def _refused(self, code: int, message: str) -> None:
        error = error_for(code)
        if self.phase is MemberPhase.OUT:
            return
        if isinstance(error, RebalanceInProgressError):
            if self.phase is MemberPhase.SYNCING:
                self._move(MemberPhase.JOINING)
            elif self.phase in (MemberPhase.STABLE, MemberPhase.SETTLING):
                self._wanted("the group rebalances")
        elif isinstance(error, (UnknownMemberIdError, IllegalGenerationError)):
            if isinstance(error, UnknownMemberIdError):
                self.member_id = ""
            self._lose(error.name)
        elif isinstance(error, FencedInstanceIdError):
            self._end(MemberPhase.FAILED, _named(error, message))
        elif error.retriable:
            self._retry()
        else:
            self._end(MemberPhase.OUT, _named(error, message))

    def _retry(self) -> None:
        """Prepare another attempt after an error that may heal; a sync begins again with a join."""
        if self.phase is MemberPhase.SYNCING:
            self._move(MemberPhase.JOINING)

    def _lose(self, reason: str) -> None:
        """Note that the coordinator no longer knows this member or its generation."""
        self.generation = -1
        self.is_leader = False
        self.wish = None
        self.reason = reason
        if self.handing_over:
            self._lost_meanwhile = True
            self._effects.append(StopReading(self.owned))
        elif self.owned:
            self._effects.append(StopReading(self.owned))
            self._offer(Handover(self.owned, lost=True))
            self._move(MemberPhase.GIVING_UP)
        else:
            self.handover = None
            self._move(MemberPhase.JOINING)

    def _end(self, phase: MemberPhase, error: Exception) -> None:
        """End the membership with an error that the application must hear."""
        self.reason = type(error).__name__
        self.member_id, self.generation, self.is_leader = "", -1, False
        self.wish = None
        if self.owned:
            self._effects.append(StopReading(self.owned))
        if not self.handing_over:
            self.handover = None
            if self.owned:
                self._offer(Handover(self.owned, lost=True))
        self._move(phase)
        self._effects.append(Tell(error))

    def _overdue(self, error: Exception) -> None:
        if self.phase in BEATING and not self.handing_over:
            if self.member_id:
                self._effects.append(SendLeave(self.member_id, "max_poll_interval_ms exceeded"))
            self._end(MemberPhase.OUT, error)

    def _leave(self, reason: str) -> None:
        if self.member_id:
            self._effects.append(SendLeave(self.member_id, reason))
        self.member_id, self.generation, self.is_leader = "", -1, False
        self.owned, self.handover, self.handing_over, self.wish = (), None, False, None
        self._move(MemberPhase.OUT)


def _named(error: ApiError, message: str) -> ApiError:
    return type(error)(message) if message else error

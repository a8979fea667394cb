"""A refused connection may be proof of a death: one process judges here what it knows of others.
Pure.

Rules
-----
* A process that died is refused at once by its host. So is a live one by a firewall or by a wrong
  entry of a hosts file, and then it is the one who accuses that is cut off. So a refusal is proof
  only for who was connected to that very life, once for each time that it was.
* A life that turned out to be one, after it had been given up or accused, is not given up on proof
  for a while, and is asked less and less often: a back-off per life.

A *life* is a broker id and the broker epoch of its registration.
"""

from __future__ import annotations

from dataclasses import dataclass

QUIET_S = 1.0
"""The quiet time after a first false alarm about a life; it doubles with each further one."""

QUIET_MAX_S = 60.0
"""Most time without belief in proof."""

ASK_AGAIN_MAX_S = 8.0
"""Most time between two questions to a life that refuses connections and objects: should it die
meanwhile, its session ends about then too."""


@dataclass(slots=True)
class _Life:
    """It holds what is known of one life."""

    epoch: int
    met: bool = False
    """Connected since it was last refused."""
    given_up: bool = False
    asked: bool = False
    """A question is on its way."""
    alarms: int = 0
    """False ones, so far."""
    believed_from: float = 0.0
    """From here on a refusal may be proof."""
    ask_from: float = 0.0


class Evidence:
    """It is kept about the newest known life of each broker. Times are of the loop's clock, in
    seconds."""

    def __init__(self) -> None:
        self._lives: dict[int, _Life] = {}

    def met(self, broker_id: int, epoch: int, now: float) -> None:
        """It answered over a connection."""
        life = self._life(broker_id, epoch)
        if life.given_up:
            _false_alarm(life, now)
        life.met = True

    def proves(self, broker_id: int, epoch: int, now: float) -> bool:
        """Return whether its refusal proves that it is dead. Counts once; it is given up then."""
        life = self._life(broker_id, epoch)
        if not life.met or now < life.believed_from:
            return False
        life.met = False
        life.given_up = True
        return True

    def asks(self, broker_id: int, epoch: int, now: float) -> bool:
        """Return whether it is time to ask a life that refuses whether it objects; ``objected`` or
        ``silent`` must follow, or ``unasked``."""
        life = self._life(broker_id, epoch)
        if life.asked or (now < life.ask_from and not life.met):
            return False
        life.met = False
        life.asked = True
        return True

    def objected(self, broker_id: int, epoch: int, now: float) -> None:
        """It lives, and cannot be reached from here."""
        life = self._life(broker_id, epoch)
        life.asked = False
        _false_alarm(life, now)

    def silent(self, broker_id: int, epoch: int) -> None:
        """It was asked and said nothing: it is given up."""
        life = self._life(broker_id, epoch)
        life.asked = False
        life.given_up = True

    def unasked(self, broker_id: int, epoch: int) -> None:
        """The question could not be put, or was taken back."""
        self._life(broker_id, epoch).asked = False

    def _life(self, broker_id: int, epoch: int) -> _Life:
        life = self._lives.get(broker_id)
        if life is None or life.epoch != epoch:
            life = self._lives[broker_id] = _Life(epoch)
        return life


def _false_alarm(life: _Life, now: float) -> None:
    life.given_up = False
    quiet_s = QUIET_S * 2 ** min(life.alarms, 10)
    life.alarms += 1
    life.believed_from = now + min(quiet_s, QUIET_MAX_S)
    life.ask_from = now + min(quiet_s, ASK_AGAIN_MAX_S)

"""Which members of the saved generation have gone since it was saved is kept here. Pure.

The record of a generation names its members. A member that goes makes the others begin a round, and
only its end is the next record. So each departure is a record of its own [N103]: a coordinator that
takes over in the middle does not wait for who will not come.

``durable`` mirrors the log, and changes only by the shard's ``replay``. What it says of another
generation than the saved one means nothing, and is taken back with the next generation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from oncelog_broker.coordinator.group.members import Member
from oncelog_broker.coordinator.group.records import SavedGroup, SavedMember, departed_record
from oncelog_broker.coordinator.result import CoordinatorRecord

_Place = tuple[str | None, str]
"""It is an instance id, or None and a member id: a static member is the same under any id."""


class Departures:
    """It tells who has gone from one group, and what is still to be written down of it."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.durable: dict[str, int] = {}
        """The log says of these members that they have gone from this generation."""
        self._saved: SavedGroup | None = None
        self._unsaved: dict[str, None] = {}
        """These members of the saved generation have gone, and the log does not say so yet."""
        self._places: dict[_Place, str] | None = None
        """The saved member ids by place, once somebody has asked."""

    # ---- durable state

    def replay(self, member_id: str, generation: int | None) -> None:
        """Take in a departure that has become durable; None takes it back."""
        if generation is None:
            self.durable.pop(member_id, None)
            return
        self.durable[member_id] = generation
        self._unsaved.pop(member_id, None)

    def replay_generation(self, saved: SavedGroup | None) -> None:
        """Take in the generation that is durable now. It names nobody who has gone."""
        self._saved = saved
        self._unsaved.clear()
        self._places = None

    def anew(self) -> Departures:
        """Return departures that know what is durable of these, and nothing else."""
        departures = Departures(self.group_id)
        departures.durable.update(self.durable)
        departures.replay_generation(self._saved)
        return departures

    @property
    def is_nothing(self) -> bool:
        """Return whether the log says nothing of departures."""
        return not self.durable

    def is_gone(self, member_id: str) -> bool:
        """Return whether the log says that this member of the saved generation has gone."""
        return self._saved is not None and self.durable.get(member_id) == self._saved.generation

    # ---- what members do

    def removed(self, member: Member) -> None:
        """Note that a member has gone, if the saved generation has it."""
        if self._saved is None:
            return
        if self._places is None:
            self._places = {_place(each): each.member_id for each in self._saved.members}
        saved_id = self._places.get(_place(member))
        if saved_id is not None and not self.is_gone(saved_id):
            self._unsaved[saved_id] = None

    def came(self, member: Member) -> None:
        """Note that a member takes a place; if its instance id was about to go, it has not gone."""
        if self._unsaved and self._places is not None:
            self._unsaved.pop(self._places.get(_place(member), ""), None)

    # ---- what is to be written

    @property
    def has_unsaved(self) -> bool:
        """Return whether somebody has gone of whom the log does not say so."""
        return bool(self._unsaved)

    def to_write(self, bytes_max: int) -> list[CoordinatorRecord]:
        """Return the records of departures that the log does not have, about as many as
        ``bytes_max`` bytes hold, and one at least."""
        if self._saved is None:
            return []
        generation = self._saved.generation
        return _fitting(
            (departed_record(self.group_id, each, generation) for each in self._unsaved), bytes_max
        )

    def to_take_back(self, bytes_max: int) -> list[CoordinatorRecord]:
        """Return the tombstones of what the log has, about as many as ``bytes_max`` bytes hold. The
        next generation takes back the rest."""
        return _fitting(self.tombstones(), bytes_max)

    def tombstones(self) -> Iterator[CoordinatorRecord]:
        """Return the tombstones of all that the log has, one by one."""
        return (departed_record(self.group_id, each, None) for each in self.durable)


def _place(member: Member | SavedMember) -> _Place:
    if member.group_instance_id is not None:
        return member.group_instance_id, ""
    return None, member.member_id


def _fitting(records: Iterable[CoordinatorRecord], bytes_max: int) -> list[CoordinatorRecord]:
    found: list[CoordinatorRecord] = []
    size = 0
    for record in records:
        if size > bytes_max:
            break
        found.append(record)
        size += len(record.key)
    return found

"""All ACLs of one version are here in a shape in which a decision is quick. Pure.

For each principal and type of resource there are the entries of literal names, found by the name,
and those of prefixes, found by walking the prefixes of the name that have one of the lengths that
occur. So a decision costs what the name's prefixes cost, and not what the entries do.

A state never changes: another version is another state, which shares with the one before what is
the same in both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from oncelog_protocol.acls import (
    ALL,
    DENY,
    EVERYBODY,
    IMPLIED_BY,
    LITERAL,
    WILDCARD,
    AclBinding,
    AclPattern,
    Address,
    Network,
    host_network,
    peer_address,
)


class AclDecision(NamedTuple):
    """It says whether something is allowed, and why."""

    allowed: bool
    entry: AclBinding | None = None
    """This entry decided; None: none did."""
    instead: str = "no ACL allows it"
    """It says what stands instead of an entry."""

    @property
    def reason(self) -> str:
        """Return the sentence of the entry that decided, or what stands instead of one."""
        # It is made when somebody asks: it takes longer than the decision.
        return self.instead if self.entry is None else self.entry.sentence()

    @property
    def denied(self) -> bool:
        """Return whether an entry forbids it, rather than none allowing it."""
        return self.entry is not None and not self.allowed


NOT_ALLOWED = AclDecision(False)


class _AclRule(NamedTuple):
    entry: AclBinding
    network: Network | None
    """The addresses that it is of; None for all."""

    def is_of(self, address: Address | None) -> bool:
        """Return whether it is of a peer's address."""
        return self.network is None or (address is not None and address in self.network)


_AclRules = Mapping[str, tuple[_AclRule, ...]]
_Key = tuple[str, str]


class _Rights(NamedTuple):
    """They are the entries of one principal on one type of resource, by name and by prefix."""

    literals: _AclRules
    prefixes: _AclRules
    lengths: tuple[int, ...]
    """The lengths of prefixes that occur, shortest first."""

    def rules(self, name: str) -> tuple[_AclRule, ...]:
        """Return the rules of a resource."""
        found = self.literals.get(name, ())
        if name != WILDCARD:
            found += self.literals.get(WILDCARD, ())
        # This is the loop that an unkept decision consists of.
        get, whole = self.prefixes.get, len(name)
        for length in self.lengths:
            if length > whole:
                break
            rules = get(name[:length])
            if rules is not None:
                found += rules
        return found


@dataclass(frozen=True, slots=True, eq=False)
class AclState:
    """It has the ACLs of one version; the one without arguments but the version has none."""

    version: int
    patterns: Mapping[AclPattern, tuple[AclBinding, ...]] = field(default_factory=dict)
    rights: Mapping[_Key, _Rights] = field(default_factory=dict)
    """They say the same, by principal and type of resource."""
    names_hosts: bool = False
    """It tells whether any entry is of certain hosts only."""

    @classmethod
    def made_of(cls, version: int, entries: Iterable[AclBinding]) -> Self:
        """Return the state that has these entries, which are checked ones."""
        patterns: dict[AclPattern, list[AclBinding]] = {}
        for entry in entries:
            patterns.setdefault(entry.pattern, []).append(entry)
        return cls(version).changed(version, patterns)

    def __iter__(self) -> Iterator[AclBinding]:
        """Yield all entries, those of one pattern after each other."""
        for entries in self.patterns.values():
            yield from entries

    def of(self, pattern: AclPattern) -> tuple[AclBinding, ...]:
        """Return the entries of one pattern."""
        return self.patterns.get(pattern, ())

    def changed(self, version: int, changes: Mapping[AclPattern, Sequence[AclBinding]]) -> Self:
        """Return the state of another version, in which these patterns have these entries, all of
        them; none ends a pattern."""
        before = {pattern: self.of(pattern) for pattern in changes}
        after = {pattern: tuple(entries) for pattern, entries in changes.items()}
        merged = {**self.patterns, **after}
        patterns = {pattern: entries for pattern, entries in merged.items() if entries}
        hosts = any(entry.host != WILDCARD for entries in patterns.values() for entry in entries)
        rights = _changed_rights(self.rights, before, after)
        return type(self)(version, patterns, rights, hosts)

    def decide(
        self, principal: str, host: str, operation: str, resource_type: str, name: str
    ) -> AclDecision:
        """Return whether a principal may do something to a resource from a host, which is the
        address of a peer: a DENY of the operation or of ALL wins, then an ALLOW of the operation,
        of ALL, or of one that implies it [S25]."""
        address = peer_address(host) if self.names_hosts else None
        enough = (operation, ALL, *IMPLIED_BY.get(operation, ()))
        allows: AclBinding | None = None
        for rights in self._rights_of(principal, resource_type):
            for rule in rights.rules(name):
                entry = rule.entry
                if entry.permission == DENY:
                    if entry.operation in (operation, ALL) and rule.is_of(address):
                        return AclDecision(False, entry)
                elif allows is None and entry.operation in enough and rule.is_of(address):
                    allows = entry
        return NOT_ALLOWED if allows is None else AclDecision(True, allows)

    def decide_any(
        self, principal: str, host: str, operation: str, resource_type: str
    ) -> AclDecision:
        """Return whether there may be a resource of the type to which a principal may do something
        (KIP-679): an ALLOW for which no DENY of the operation is of all that it allows."""
        address = peer_address(host) if self.names_hosts else None
        enough = (operation, ALL, *IMPLIED_BY.get(operation, ()))
        allows: list[AclBinding] = []
        denied: dict[str, AclBinding] = {}
        denied_prefixes: dict[str, AclBinding] = {}
        for rights in self._rights_of(principal, resource_type):
            for rules in (*rights.literals.values(), *rights.prefixes.values()):
                for entry in (rule.entry for rule in rules if rule.is_of(address)):
                    if entry.permission != DENY:
                        if entry.operation in enough:
                            allows.append(entry)
                    elif entry.operation in (operation, ALL):
                        literal = entry.pattern_type == LITERAL
                        (denied if literal else denied_prefixes)[entry.name] = entry
        if WILDCARD in denied:
            return AclDecision(False, denied[WILDCARD])
        lengths = _lengths(denied_prefixes)
        for entry in allows:
            literal = entry.pattern_type == LITERAL
            if literal and entry.name == WILDCARD:
                return AclDecision(True, entry)
            within = any(prefix in denied_prefixes for prefix in _prefixes(entry.name, lengths))
            if not within and not (literal and entry.name in denied):
                return AclDecision(True, entry)
        return NOT_ALLOWED

    def _rights_of(self, principal: str, resource_type: str) -> Iterator[_Rights]:
        own = self.rights.get((principal, resource_type))
        if own is not None:
            yield own
        everybodys = self.rights.get((EVERYBODY, resource_type))
        if everybodys is not None and principal != EVERYBODY:
            yield everybodys


def _prefixes(name: str, lengths: Iterable[int]) -> Iterator[str]:
    """Yield the beginnings of a name that have one of the lengths, which grow."""
    whole = len(name)
    for length in lengths:
        if length > whole:
            return
        yield name[:length]


def _lengths(prefixes: Collection[str]) -> tuple[int, ...]:
    return tuple(sorted(set(map(len, prefixes))))


def _changed_rights(
    known: Mapping[_Key, _Rights],
    before: Mapping[AclPattern, Sequence[AclBinding]],
    after: Mapping[AclPattern, Sequence[AclBinding]],
) -> dict[_Key, _Rights]:
    """Return the rights in which patterns have the entries ``after`` instead of ``before``."""
    touched: dict[_Key, dict[AclPattern, list[_AclRule]]] = {}
    for pattern, entries in before.items():
        for entry in entries:
            touched.setdefault((entry.principal, entry.resource_type), {})[pattern] = []
    for pattern, entries in after.items():
        for entry in entries:
            rules = touched.setdefault((entry.principal, entry.resource_type), {})
            rules.setdefault(pattern, []).append(_AclRule(entry, host_network(entry.host)))
    rights = dict(known)
    for key, patterns in touched.items():
        old = known.get(key)
        literals = {} if old is None else dict(old.literals)
        prefixes = {} if old is None else dict(old.prefixes)
        for pattern, now in patterns.items():
            where = literals if pattern.pattern_type == LITERAL else prefixes
            if now:
                where[pattern.name] = tuple(now)
            else:
                where.pop(pattern.name, None)
        rights[key] = _Rights(literals, prefixes, _lengths(prefixes))
        if not literals and not prefixes:
            del rights[key]
    return rights

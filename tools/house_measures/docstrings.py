"""This measure finds docstrings whose first sentence lacks a main verb or its subject.

No library for parts of speech is at hand, so this is a heuristic over lists of words. A sentence is
good when it begins with an imperative, or when it has more finite verbs than words that begin a
subordinate clause ("that", "whose", "when"), as each of those takes one verb for itself.

Run it alone: ``.venv/bin/python tools/house_measures/docstrings.py broker client``.
A good sentence that is found holds a verb which is missing in the lists below: add it.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tools.house_measures.statements import statements  # noqa: E402


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


AUXILIARIES = _words("""
    is are was were has have had can could may might must shall should will would do does did
    cannot isn't aren't wasn't weren't hasn't haven't hadn't can't couldn't mustn't shouldn't won't
    wouldn't don't doesn't didn't needn't
""")
"""Finite wherever they stand; the verb after one of them belongs to it."""

AMBIGUOUS_IMPERATIVES = _words("""
    abort act answer back batch benchmark block bound break call capture cast charge check claim
    clean clone compact complete correct corrupt cover crash cut damage deal demand dispatch drain
    drive echo empty end escape estimate exercise exit export fail fall fence fetch figure fit flag
    focus format free group guess hash heal help hurry import interrupt key kick lead level limit
    link list lock log map match measure mirror mix mount name need object offer open order own pack
    pad page pair park patch ping place plan play point poll press probe process produce promise
    pump query queue quote rank reboot record relay reply report request reserve result roll round
    run sample schedule seal search seed separate share shift shut sign size sleep slow smooth
    spread stall stamp stand state step store stream suffix sum swap sweep switch tear test time
    torture trace transfer type visit work
""")
"""Nouns and adjectives too: an imperative when an object, a preposition or the end follows."""

IMPERATIVES = _words("""
    abandon accept acquire add adjust adopt advance agree allow alter announce append apply arm
    arrange ask assert assign attach authenticate avoid await be become begin believe bind blame
    boil bring build calculate cancel carry change choose clear close collect combine come commit
    compare complain compute confirm connect consider construct consult consume continue convert
    copy count create cross decide declare decline decode decompress decrement defer delete deliver
    demote deny derive describe detach detect determine die discard disconnect distribute disturb
    divide do draw drop elect enable encode enforce enqueue ensure enter erase evict examine exclude
    execute expand expect expire explain extend extract fill find finish flatten flip flush follow
    forbid forget forward freeze fulfil gather generate get give go grow guard hand handle hang have
    hear hide hold ignore imitate include increase increment infer inform initialise inject insert
    inspect install interpret introduce invent invoke isolate iterate join judge keep kill know
    launch learn leave let listen live load locate look lose lower make mark meet mend merge misuse
    move multiply negotiate note notice notify obey observe obtain omit outlive overwrite parse pass
    pause pay peek perform persist pick prefer prepare preserve pretend prevent print promote
    propose protect prove provide prune publish pull punish purge push put raise reach react read
    rebalance rebuild recall receive reckon recompute reconcile reconnect recover recycle redraw
    reduce refer refresh refuse regard register reject release reload rely remain remember remount
    remove rename render renew reopen repeat replace replay replicate require resend reset resign
    resize resolve respond restart restore resume retain rethrow retire retry return reuse revive
    revoke rewrite rotate satisfy save say scan scrape see seek select send serve set settle shorten
    show shrink shuffle simulate skip sort spawn split spoil squeeze start stay stop strip submit
    subscribe subtract succeed suggest summarise supervise suppress suspect suspend sync take tell
    terminate thaw throw tie tolerate touch track transform translate treat trim truncate try turn
    undo unite unlink unlock unpack unregister unwind update upgrade use validate verify vouch wait
    wake walk warn watch weigh withdraw wrap write yield
""") | (
    AMBIGUOUS_IMPERATIVES
    - _words(
        "batch benchmark clean fetch figure format group key lead limit log name result state work"
    )
)
"""They open a docstring that tells what to do."""

THIRD_PERSONS = _words("""
    abandons aborts accepts acknowledges adds admits adopts advertises agrees allows appears applies
    arrives asserts assigns authenticates awaits bears becomes begins behaves believes belongs bends
    brings builds calculates cancels carries checks chooses cites closes combines comes compacts
    compares complains completes computes confirms connects considers consists consumes contains
    continues contradicts converts coordinates corrects crashes creates decides declares decodes
    defines deletes delivers denies depends derives describes destroys detects determines dies
    differs disagrees disappears discards discovers distributes divides does drains draws drives
    earns empties encodes ensures enters escapes evicts exceeds excludes executes exists expects
    expires explains extends extracts fails falls fetches fills finds finishes fits follows forbids
    forgets forwards frees fulfils gains gathers generates gets gives goes grows guards handles
    hangs happens harms hears helps holds hosts identifies ignores implements includes increases
    informs inserts interprets invokes iterates joins jumps keeps kills knows lacks lasts learns
    leaves lets lies listens lives loads loses maintains makes manages matches measures meets
    mentions merges modifies moves multiplies notifies obeys observes obtains occurs offers omits
    opens opposes outlives overwrites owes owns parses passes pays performs persists picks plays
    possesses prefers prepares pretends prevents proceeds produces proposes protects proves provides
    publishes pulls punishes purges pushes puts raises reaches reacts reappears receives reclaims
    recovers reduces refers refuses registers rejects rejoins relies remains remembers removes
    renames renders reopens repeats replaces replicates requires resembles reserves resets resigns
    resolves restarts restores resumes returns revokes rewrites rolls routes satisfies says scrapes
    seems sees selects sends separates serves settles shares shows shrinks shuts simulates sits
    skips sleeps sorts spans speaks spreads stands starts stays stops stores subscribes succeeds
    suffers suggests summarises supervises supplies supports surrounds survives suspends swallows
    syncs takes tells terminates throws tolerates translates travels treats tries truncates trusts
    turns understands unites uses vanishes vetoes violates vouches waits wakes wants warns wins
    withdraws works wraps writes yields
""")
"""Verbs that follow "it"."""

NOUNS = _words("""
    accounts appends batches benchmarks bounds copies dates edits faults fences figures forms
    groups heads keys labels lines links lists logs numbers pages pairs parts pieces places points
    ports processes programs questions queues ranges rates records reports requests results retries
    rounds rules samples shapes sizes spans states streams tags times types updates values views
    words
""")
"""Nouns here, and verbs only after "it" or "who"."""

AMBIGUOUS_THIRD_PERSONS = NOUNS | _words("""
    acts answers asks attempts backs blocks breaks calls causes changes checkpoints checks claims
    closes commits concerns contacts costs counts crashes cuts deals demands drives drops duplicates
    ends feeds fetches flows flushes gates grants guards guesses hands hosts joins judges lays leads
    lies limits lives locks looks loops maps marks matters means measures mirrors misses moves names
    needs notes notices objects offers opens orders overrides parks pauses permits picks plans polls
    prefixes presents prints produces promises pumps quotes reads releases replays replies runs
    schedules searches seeds sets shares shifts signals sleeps sorts splits spots starts steps stops
    stores sums suspects switches syncs tests traces tracks travels turns uses visits waits walks
    watches weighs works wraps writes
""")
"""Plural nouns too: a verb where one can stand."""

PLURALS = _words("""
    accept agree allow appear arrive ask bear become begin behave belong bring carry choose come
    concern connect consist contain continue decide decode depend describe detect die differ
    disappear encode exist expire explain fail fall find follow forget get give go grow hang happen
    hold include join keep know lack lead learn let lie listen lose make mean meet occur owe pass
    prefer prove provide raise reach receive refer refuse remain remember remove require rest say
    see seem send serve sit speak stand stay succeed survive take tell try understand vanish wait
    write
""")
"""Verbs that follow "they", and are no nouns that are usual here."""

AMBIGUOUS_PLURALS = (
    AMBIGUOUS_IMPERATIVES | IMPERATIVES | _words("matter want share need use turn") - PLURALS
)
"""Verbs that count after a pronoun or a plural alone: "they read", "brokers read"."""

PASTS = _words("""
    appeared arrived became began broke came chose died disappeared existed expired failed fell gave
    got grew handed happened knew lay meant occurred ran rose said saw showed spoke stood succeeded
    threw took vanished went withdrew woke wrote
""")
"""Past forms that are hardly ever participles."""

SUBORDINATORS = _words("""
    that which who whom whose what whatever whichever whoever whether where wherever when whenever
    if because while how why until unless although though lest
""")
"""Each begins a clause, which has a verb of its own."""

SOMETIMES_SUBORDINATORS = _words("after as before once since than till")
"""They begin a clause when a pronoun follows."""

FRAGMENT_STARTS = _words("""
    of what whatever which who whom whose whether how where that as than till why
""")
"""A sentence that begins so is counted strictly."""

ATTRIBUTE_FRAGMENTS = _words("""
    of what who whose whom between above below in on by to from before instead where since
""")
"""The text below an attribute may be a noun with what belongs to it, but none of these without a
verb."""

CLAUSE_STARTS = _words("after although because before if once since unless until when while though")
"""A sentence that begins so needs a comma before its main clause."""

_DETERMINERS = _words("""
    a an the this these those its their his her our your my each every all any some no another both
    either neither one two three several many most more few other such what whatever which whichever
    whose
""")
_PRONOUNS = _words("""
    all anybody anything both each either everybody everything he i it neither nobody none nothing
    others she somebody something that there these they those we what which who whoever you
""")
_SUBJECTS = _words("he it she they we you i there nobody somebody everybody nothing everything")
_VERBISH = _words(
    "writes commits runs reads leads ends hands asks starts stops lives changes moves"
)
_ADJECTIVES = _words("same last first next new old own other whole open late newest oldest")
_LOOSE_PLURALS = _words("share turn use need want")
_INTRANSITIVES = _words(
    "answers breaks changes crashes ends hangs moves sleeps starts turns stops waits works"
)
_RELATIVES = _words(
    "it that which who whoever nobody somebody everybody nothing something one this"
)
_PARTICIPLES = _words("read told made done sent held found known written taken given begun kept")
_PREPOSITIONS = _words("""
    about above across after against along among around as at of before behind below beneath beside
    between beyond by down during for from in inside into like near off on onto out outside over
    past per through throughout to toward towards under until up upon via with within without
""")
_BEFORE_THAT = _PREPOSITIONS - _words("in as after before until of")
_ADVERBS = _words("""
    again all already also always anew anyway at away back both down else even ever first further
    here however indeed instead just later least likewise meanwhile merely moreover most mostly
    never no not now nowhere off often once only otherwise out perhaps rather since so sometimes
    soon still then there therefore thus together too twice up usually yet anyhow alone
""")
_JOINERS = _words("and or nor but")
_CODE = "§"
_TOKEN = re.compile(r"§|[A-Za-z][A-Za-z'’-]*|\d+|[,;:()–—/=+]")
_CITATIONS = re.compile(r"^(?:\[[^\]]*\][,:]?\s*)+")
_ASIDE = re.compile(r"\([^()]*\)")
_NAME = re.compile(r"\b[A-Z]+[a-z]+[A-Z]\w*|\b\w+(?:[_./=]\w+)+(?:\(\))?")
_INLINE = re.compile(r":\w+:`[^`]*`|``[^`]*``|`[^`]*`|\"[^\"]*\"|\[[A-Z]+\d+\]")
_END = re.compile(r"(?<!e\.g)(?<!i\.e)(?<!etc)(?<!')[.!?](?=[\s)'\"]|$)")
_FIELD = re.compile(r"^\s*:(?:param|raises|returns?|type|ivar|var)\b", re.MULTILINE)


@dataclass(frozen=True, order=True)
class Finding:
    """A finding names one docstring that does not begin with a sentence."""

    path: str
    line: int
    name: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.name}: {self.sentence}"


def measure(root: Path, folders: Iterable[str]) -> list[Finding]:
    """Return the bad docstrings of all modules below folders, which are relative to ``root``."""
    paths = [path for folder in folders for path in _modules(root / folder)]
    return [found for path in paths for found in _in_module(root, path)]


def is_sentence(docstring: str) -> bool:
    """Return whether the docstring's first sentence is an imperative or has a main verb.

    A docstring that consists of fields alone (``:raises``) has no sentence, and is good.
    """
    if docstring.lstrip().startswith(":"):
        return True
    text = _CITATIONS.sub("", first_sentence(docstring).replace("’", "'"))
    text = re.sub(r"^\([^()]*\)", _CODE, text)
    text = re.sub(r"^(\w+) \([^()]*\)", rf"\1 {_CODE}", text)
    text = _ASIDE.sub("", _NAME.sub(_CODE, _INLINE.sub(_CODE, text)))
    text, _, _ = text.partition(";")
    left, colon, _ = text.partition(":")
    tokens = _tokens(left)
    if colon and tokens and (_verbs(tokens) or tokens[0] in FRAGMENT_STARTS | CLAUSE_STARTS):
        return _is_good(tokens)
    return _is_good(_tokens(text))


def first_sentence(docstring: str) -> str:
    """Return, on one line, what stands before the first full stop, blank line or field."""
    paragraph = re.split(r"\n\s*\n", docstring.strip(), maxsplit=1)[0]
    field = _FIELD.search(paragraph)
    if field:
        paragraph = paragraph[: field.start()]
    line = " ".join(paragraph.split())
    hidden = _INLINE.sub(lambda found: _CODE * len(found[0]), line)
    end = _END.search(hidden)
    return line[: end.start()] if end else line


def _is_good(tokens: list[str]) -> bool:
    while tokens and not (tokens[0].isalnum() or tokens[0] == _CODE or "'" in tokens[0]):
        tokens = tokens[1:]
    if not tokens or _lacks_subject(tokens):
        return False
    if _is_imperative(tokens):
        return True
    if tokens[0] in CLAUSE_STARTS and not _has_second_clause(tokens):
        return False
    strict = tokens[0] in FRAGMENT_STARTS
    wanted = _clauses(tokens, strict=strict) + 1
    return _verbs(tokens) + _later_imperatives(tokens) >= wanted


def _has_second_clause(tokens: list[str]) -> bool:
    return any(
        token == "," and _after(tokens, at) not in _JOINERS for at, token in enumerate(tokens)
    )


def _tokens(text: str) -> list[str]:
    return [token.lower() for token in _TOKEN.findall(text)]


def _is_imperative(tokens: list[str]) -> bool:
    at = 0
    while at < len(tokens) - 1 and tokens[at] in ("never", "always", "only", "then", "not", "also"):
        at += 1
    word, following = tokens[at], _after(tokens, at)
    if word in ("don't", "do") or (word in IMPERATIVES and word not in AMBIGUOUS_IMPERATIVES):
        return following != "of" or word in ("dispose", "get", "let", "make", "take", "tell")
    return word in AMBIGUOUS_IMPERATIVES and _opens_object(following)


def _opens_object(token: str) -> bool:
    """Return whether what follows a verb can begin with this token."""
    if token in ("", ",", ";", ":", "(", _CODE) or token.isdigit():
        return True
    known = _DETERMINERS | _PRONOUNS | _PREPOSITIONS | _ADVERBS | SUBORDINATORS | _JOINERS
    return (
        token in known
        or token in ("them", "him", "us", "itself", "themselves")
        or token.endswith(("ly", "ing"))
    )


def _lacks_subject(tokens: list[str]) -> bool:
    first, second = tokens[0], _after(tokens, 0)
    if first in AUXILIARIES and first not in ("do", "don't", "have"):
        return True
    if first in AMBIGUOUS_THIRD_PERSONS:
        if second in _DETERMINERS - {"that", "what"} or second in ("it", "them", ",", _CODE):
            return True
        return second.endswith("s") and second not in AUXILIARIES | THIRD_PERSONS
    return first in THIRD_PERSONS


def _verbs(tokens: list[str]) -> int:
    """Count the finite verbs; one that "and" joins to an earlier one does not count again."""
    count = 0
    at = 0
    while at < len(tokens):
        if _is_finite(tokens, at) and not (count and _joins(tokens, at)):
            count += 1
            at = _end_of_group(tokens, at)
        else:
            at += 1
    return count


def _end_of_group(tokens: list[str], at: int) -> int:
    """Return where the words end that belong to the verb: in "may not have been" there is one."""
    if tokens[at] not in AUXILIARIES:
        return at + 1
    at += 1
    while at < len(tokens) and (tokens[at] in _ADVERBS or tokens[at].endswith("ly")):
        at += 1
    while at < len(tokens) and tokens[at] in ("be", "been", "being", "had", "have", "not", "done"):
        at += 1
    if at < len(tokens) and (tokens[at] in PLURALS | IMPERATIVES | PASTS):
        at += 1
    return at


def _is_finite(tokens: list[str], at: int) -> bool:
    word = tokens[at]
    previous = _before(tokens, at)
    if word in AUXILIARIES:
        return previous != "to"
    if previous in ("to", "let", "of", "a", "an", "the", "its", "their", "no", "'s"):
        return False
    if previous.endswith(("'s", "'")):
        return False
    if previous in ("they", "we", "you") and word not in _ADVERBS | _PREPOSITIONS | _JOINERS:
        return word.isalpha() and word not in SUBORDINATORS | SOMETIMES_SUBORDINATORS
    if previous == "it" and word.endswith("s") and word not in _ADVERBS | _DETERMINERS | {"as"}:
        return word not in ("less", "unless")
    if word in AMBIGUOUS_THIRD_PERSONS:
        return _stands_as_verb(tokens, at)
    if word in THIRD_PERSONS or word in PASTS:
        subject = previous in SUBORDINATORS - {"that", "which", "who", "what", "whoever"}
        return not (subject and _after(tokens, at) in AUXILIARIES)
    if tokens[:2] == ["these", "tests"] and at == 2:
        return True
    if word.endswith("ed") or word in _PARTICIPLES:
        if _after(tokens, at) in _DETERMINERS and word != "read" and at > 1:
            return previous not in AUXILIARIES | _ADVERBS | _PREPOSITIONS | _JOINERS | {
                "be",
                "been",
            }
        if previous in ("it", "they", "nobody"):
            return True
        following = _after(tokens, at)
        if previous in ("that", "which", "who", "what") and following in AUXILIARIES:
            return True
        return _opens_object(following) and _lacks_verb(tokens, at)
    if at == 0:
        return False
    if not previous[0].isalpha() and previous != _CODE:
        return False
    if word in PLURALS:
        return previous not in AUXILIARIES | _JOINERS
    singular = AUXILIARIES | _ADVERBS | THIRD_PERSONS | _DETERMINERS | _PRONOUNS
    plural = previous.endswith("s") and previous not in singular
    subject = plural or previous in ("they", "we", "you", "others", "these", "those")
    back = next(token for token in [*reversed(tokens[:at]), ""] if token not in _ADVERBS)
    relative = back in ("who", "that", "which") and at > 1
    relative = relative and _after(tokens, at) not in AUXILIARIES
    if word not in AMBIGUOUS_PLURALS:
        return False
    following = _after(tokens, at)
    if word in _LOOSE_PLURALS and previous not in _DETERMINERS | _PREPOSITIONS | AUXILIARIES:
        subject = True
    return relative or (subject and (_opens_object(following) or following.endswith("s")))


def _lacks_verb(tokens: list[str], at: int) -> bool:
    """Return whether a clause began shortly before and has no verb yet: "what one look found"."""
    for earlier in range(at - 1, max(-1, at - 8), -1):
        if tokens[earlier] in SUBORDINATORS:
            return True
        if tokens[earlier] in AUXILIARIES | THIRD_PERSONS | PASTS or tokens[earlier] in ",;:":
            return False
    return False


def _stands_as_verb(tokens: list[str], at: int) -> bool:
    word, previous, following = tokens[at], _before(tokens, at), _after(tokens, at)
    if previous in ("which", "that") and (at == 1 or (word in NOUNS and previous != "that")):
        return False
    if previous in _RELATIVES:
        return following not in AUXILIARIES
    if previous in ("what", "which") and (at > 1 or previous == "what"):
        opens = _PREPOSITIONS - {"of"} if word in _VERBISH else frozenset()
        return following in _DETERMINERS | opens | {"it", "them"}
    if not previous:
        return False
    if previous in _DETERMINERS | _PREPOSITIONS | AUXILIARIES | _JOINERS | _ADJECTIVES:
        return False
    if not previous[0].isalpha() and previous != _CODE:
        return False
    if following in AUXILIARIES or following in ("", ",", ";", ":", "and", "or"):
        clause = previous not in SUBORDINATORS and _lacks_verb(tokens, at)
        return word in _INTRANSITIVES or (clause and word not in NOUNS - {"promises"})
    if following == "of":
        return False
    if word in _VERBISH and following not in ("that", "which", "who"):
        return not previous.endswith("s") or previous.endswith("ss")
    if word in NOUNS:
        return following in _DETERMINERS or following == "it"
    return _opens_object(following) or (following.endswith("s") and not previous.endswith("s"))


def _joins(tokens: list[str], at: int) -> bool:
    previous = _before(tokens, at)
    back = at - 1
    while back >= 0 and (tokens[back] in _ADVERBS or tokens[back].endswith("ly")):
        back -= 1
    return previous in _JOINERS or (back >= 0 and tokens[back] in _JOINERS)


def _clauses(tokens: list[str], *, strict: bool) -> int:
    """Count the words that take a verb for a subordinate clause.

    ``strict`` also counts what may join a second verb to a clause: "and", and a comma.
    """
    count = 0
    for at, word in enumerate(tokens):
        previous, following = _before(tokens, at), _after(tokens, at)
        if word in SUBORDINATORS:
            count += not _takes_no_verb(tokens, at)
        elif word in SOMETIMES_SUBORDINATORS and previous != "at":
            count += strict or following in _SUBJECTS or _joins_clause(tokens, at)
        elif strict and word in ",;:" and following not in SUBORDINATORS:
            count += 1
        elif strict and word in _JOINERS and previous != ",":
            count += bool(following) and not _is_finite(tokens, at + 1)
        elif word in _SUBJECTS - {"i"} and _is_bare_relative(tokens, at):
            count += 1
    return count


def _joins_clause(tokens: list[str], at: int) -> bool:
    """Return whether a finite verb follows "as" or its like, in the same part of the sentence."""
    word, previous = tokens[at], _before(tokens, at)
    if word == "as" and "as" in tokens[at + 1 : at + 5]:
        return False  # the first one in "as long as it is"
    compared = word == "as" and "as" in tokens[max(0, at - 4) : at]
    if compared and previous not in ("long", "far", "soon", "much", "many", "often"):
        return False  # "as large as this"
    if word == "than":
        return False  # "fewer than three are": with a pronoun it joins a clause
    if word in ("after", "before") and not (
        previous.endswith(("ed", ",")) or previous in _PARTICIPLES
    ):
        return False
    for later in range(at + 1, len(tokens)):
        if tokens[later] in SUBORDINATORS or tokens[later] in ",;:":
            return False
        if _is_finite(tokens, later):
            return True
    return False


def _is_bare_relative(tokens: list[str], at: int) -> bool:
    """Return whether the pronoun begins a clause without "that": "the change it has asked for"."""
    previous = _before(tokens, at)
    if not previous.isalpha() or at + 1 >= len(tokens) or not _is_finite(tokens, at + 1):
        return False
    known = SUBORDINATORS | SOMETIMES_SUBORDINATORS | _JOINERS | _PREPOSITIONS | _ADVERBS
    return previous not in known - {"all"} | {
        "so",
        "longer",
        "far",
        "long",
    } and not previous.endswith("ly")


def _takes_no_verb(tokens: list[str], at: int) -> bool:
    """Return whether the word begins no clause here, or one without a finite verb."""
    word, previous, following = tokens[at], _before(tokens, at), _after(tokens, at)
    if word == "that" and (following == "of" or previous in _BEFORE_THAT):
        return True  # "with that name"
    if following in ("to", "", ",", ";", ":", ")", "possible", "needed", "else", "or", "and"):
        return word != "that"  # "what to send", "when needed"
    if at and not any(_is_finite(tokens, later) for later in range(at + 1, len(tokens))):
        return True  # "whatever the key", "reads which partitions"
    if word in ("when", "where", "while", "if", "until", "unless", "though"):
        return following in ("any", "not", "need") or (
            at > 0 and following.endswith(("ing", "ed")) and following not in _SUBJECTS | _PRONOUNS
        )
    return False


def _later_imperatives(tokens: list[str]) -> int:
    """Count imperatives that follow a clause: "If there is room, take it"."""
    return sum(
        token in ",;:" and at + 1 < len(tokens) and _is_imperative(tokens[at + 1 :])
        for at, token in enumerate(tokens)
        if tokens[0] in SUBORDINATORS
    )


def _before(tokens: list[str], at: int) -> str:
    return tokens[at - 1] if at else ""


def _after(tokens: list[str], at: int) -> str:
    return tokens[at + 1] if at + 1 < len(tokens) else ""


def _modules(folder: Path) -> list[Path]:
    return [folder] if folder.is_file() else sorted(folder.rglob("*.py"))


def _in_module(root: Path, path: Path) -> Iterator[Finding]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in statements(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
        if not isinstance(node, kinds):
            continue
        docstring = ast.get_docstring(node)
        if docstring and not is_sentence(docstring):
            name = getattr(node, "name", "the module")
            where = str(path.relative_to(root))
            yield Finding(where, node.body[0].lineno, name, first_sentence(docstring))
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _attributes(str(path.relative_to(root)), node.body)


def _attributes(where: str, body: list[ast.stmt]) -> Iterator[Finding]:
    for attribute, below in pairwise(body):
        match attribute, below:
            case ast.Assign() | ast.AnnAssign(), ast.Expr(value=ast.Constant(value=str(text))):
                tokens = _tokens(text)
                if tokens and tokens[0] in ATTRIBUTE_FRAGMENTS and not is_sentence(text):
                    name, _, _ = ast.unparse(attribute).partition(" ")
                    yield Finding(where, below.lineno, name, first_sentence(text))


def main() -> None:
    """Print the bad docstrings of the given folders, and their number."""
    parser = argparse.ArgumentParser(description="Find docstrings that begin with a fragment.")
    parser.add_argument("folders", nargs="+", help="folders or modules, from the checkout's root")
    found = measure(ROOT, parser.parse_args().folders)
    for finding in found:
        print(finding)
    print(f"{len(found)} bad docstrings")


if __name__ == "__main__":
    main()

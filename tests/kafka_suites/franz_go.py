"""franz-go's integration tests are run: chains of groups and of transactions.

Each must see each record exactly once."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from kafka_suites.doors import doors
from kafka_suites.fetch import Edit, go_tests
from kafka_suites.kills import TooFewKillsError, killed_in_turns
from kafka_suites.kit import Ended, Kit
from kafka_suites.verdict import SuiteResult

MODULE = "github.com/twmb/franz-go"
VERSION = "v1.22.2"
SUM = "h1:EdwIHGzD/4mgCpl/sNS0C74JYn6cL/r2KYS+8UC96Ww="
TESTS = "^Test(GroupETL|TxnEtl)$"
RECORDS = 20_000
RECORDS_UNDER_KILLS = 60_000
TOLERANT = (
    Edit(
        "pkg/kgo/txn_test.go",
        'c.sendErr(fmt.Errorf("poll got unexpected errs: %v", fetchErrs))',
        'fmt.Printf("    a poll told: %v\\n", fetchErrs)',
    ),
    Edit(
        "pkg/kgo/txn_test.go",
        'c.sendErr(fmt.Errorf("flush unexpected err: %v", err))',
        "if network := isRetryableBrokerErr(err) || isDialNonTimeoutErr(err); network && "
        'bytes.HasPrefix([]byte(err.Error()), []byte("unable to commit transaction offsets")) '
        '{ fmt.Printf("    a commit told: %v\\n", err) } else '
        '{ c.sendErr(fmt.Errorf("flush unexpected err: %v", err)) }',
    ),
)
"""While brokers die, a client's polls tell of it, and it is to poll on: its session with a group
ended, and begins anew; or it may have lost records. The latter franz-go 1.22 also tells when a
leader changes after an aborted transaction: it goes past those records and keeps the leader epoch
of the ones before. A commit tells that the network ended under its offsets, and that it has
aborted. ``TestTxnEtl`` counts all that is told as a failure; here that alone is none. Whether a
record is lost or seen twice is judged by the rest of the test, as it stands."""
GROUPS = 9
"""Three chains of three groups each run at once; the last topic is made before the last group."""
DEADLINE_S = 300.0
VERDICT = re.compile(r"^\s*--- (PASS|FAIL|SKIP): (\S+) \(", re.MULTILINE)


def run(kit: Kit) -> SuiteResult:
    """Run it.

    :raises NotAvailableError: it cannot be had here.
    """
    return result_of(program_of(kit)(kit.bootstrap, TESTS, RECORDS))


def under_kills(kit: Kit) -> SuiteResult:
    """Run the chains of transactions while brokers are killed, which clients reach by doors.

    :raises NotAvailableError: it cannot be had here.
    """
    play = program_of(kit, TOLERANT)
    with (
        doors(kit.cluster) as bootstrap,
        killed_in_turns(kit.cluster, kit.report, groups=GROUPS) as kills,
    ):
        ended = play(bootstrap, "^TestTxnEtl$", RECORDS_UNDER_KILLS)
    result = result_of(ended)
    try:
        kills.check()
    except TooFewKillsError as error:
        result.failed["kills"] = str(error)
    return result


def program_of(kit: Kit, edits: Sequence[Edit] = ()) -> Callable[[str, str, int], Ended]:
    """Return what runs tests against the brokers there, of a name, with so many records.

    :raises NotAvailableError: they cannot be had here.
    """
    program = go_tests(MODULE, VERSION, SUM, "./pkg/kgo", kit.report, edits)

    def play(bootstrap: str, tests: str, records: int) -> Ended:
        options = ["-test.v", "-test.run", tests, f"-test.timeout={DEADLINE_S:.0f}s"]
        environment = {
            "KGO_SEEDS": bootstrap,
            "KGO_TEST_RF": "3",
            "KGO_TEST_RECORDS": str(records),
        }
        return kit.run("kgo", [program, *options], DEADLINE_S + 30, environment=environment)

    return play


def result_of(ended: Ended) -> SuiteResult:
    """Return what ``go test -v`` printed; of a test that has parts, the parts are counted."""
    told = {name: word for word, name in VERDICT.findall(ended.output)}
    parts = {name: word for name, word in told.items() if "/" in name}
    result = SuiteResult()
    for name, word in told.items():
        mine = [each for part, each in parts.items() if part.startswith(f"{name}/")]
        if name not in parts and mine and (word != "FAIL" or "FAIL" in mine):
            continue
        if word == "PASS":
            result.passed.append(name)
        elif word == "SKIP":
            result.skipped[name] = ""
        else:
            result.failed[name] = ended.tail
    if ended.code != 0 and not result.failed:
        result.failed["the whole program"] = ended.tail
    return result

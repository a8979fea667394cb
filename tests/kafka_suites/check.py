"""Suites of others judge our Kafka listener: ``make kafka-suites`` ends with one JSON line.

    {"suites": {"kcat": {"run": 4, "passed": 4, "failed": [], "skipped": []}, ...}, "ok": true}

Each suite has three brokers of its own, and what it needs is fetched once, from the registries of
its language. Failures that ``docs/kafka.md`` explains do not make ``ok`` false; a failure that is
not explained does, and so does a suite that was asked for and cannot be had here. When not all is
well, the brokers' logs and the output of the suites stay, and a line says where.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from kafka_suites import (
    connect,
    doors,
    faststream,
    faust,
    franz_go,
    kafka_python,
    kafka_tools,
    kcat,
    kills,
    librdkafka,
    spark_connector,
)
from kafka_suites.fetch import NotAvailableError
from kafka_suites.kit import Kit, Suite, brokers
from kafka_suites.verdict import SuiteResult, judged, known_failures
from oncelog_cli.local.process import LocalClusterError
from support.house import ROOT

PAGE = ROOT / "docs/kafka.md"
SUITES: Mapping[str, Suite] = {
    "franz-go": Suite(franz_go.run),
    "tools": Suite(kafka_tools.run),
    "kafka-python": Suite(kafka_python.run),
    "librdkafka": Suite(librdkafka.gate),
    "librdkafka-more": Suite(librdkafka.more, nightly=True),
    "kcat": Suite(kcat.run),
    "connect": Suite(connect.run),
    "faststream": Suite(faststream.run),
    "faust": Suite(faust.run),
    "spark-connector": Suite(spark_connector.run, nightly=True),
    "franz-go-kills": Suite(
        franz_go.under_kills,
        settings={**kills.SETTINGS, **doors.SETTINGS},
        nightly=True,
        kills=True,
    ),
    "tools-kills": Suite(
        kafka_tools.under_kills, settings=kills.SETTINGS, nightly=True, kills=True
    ),
}


def main() -> int:
    """Run what is asked for; return 0 if all is well."""
    parser = argparse.ArgumentParser(prog="kafka-suites", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of: {', '.join(SUITES)}")
    parser.add_argument("--kills", action="store_true", help="also those that kill brokers")
    options = parser.parse_args()
    asked = asked_for(options.suites, kills=options.kills)
    for name in asked:
        if name not in SUITES:
            parser.error(f"there is no suite {name!r}: choose from {', '.join(SUITES)}")
    known = known_failures(PAGE.read_text(encoding="utf-8"))
    folder = Path(tempfile.mkdtemp(prefix="kafka-suites-"))
    results = {name: played(name, SUITES[name], folder / name) for name in asked}
    line, remarks = judged(results, known)
    for remark in remarks:
        print(remark)
    if line["ok"]:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"logs and output are in {folder}")
    print(json.dumps(line))
    return 0 if line["ok"] else 1


def asked_for(names: Sequence[str], *, kills: bool) -> list[str]:
    """Return the suites to run: those that are named, or the gates.

    :param kills: with those that kill brokers.
    """
    gates = [name for name, suite in SUITES.items() if not suite.nightly]
    more = [name for name, suite in SUITES.items() if suite.kills and kills]
    return list(dict.fromkeys([*(names or gates), *more]))


def played(name: str, suite: Suite, folder: Path) -> SuiteResult:
    """Run one suite against brokers of its own."""
    folder.mkdir()
    try:
        with brokers(folder / "cluster", suite.settings) as cluster:
            said(f"{name}: runs against {cluster.kafka_bootstrap}")
            servers = cluster.kafka_bootstrap or ""
            return suite.run(Kit(servers, cluster.bootstrap, folder, said, cluster))
    except NotAvailableError as error:
        return SuiteResult(missing=str(error))
    except LocalClusterError as error:
        return SuiteResult(failed={"the brokers": str(error)})


def said(text: str) -> None:
    """Tell people what goes on, beside what programs read."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())

"""The runner's command line has ``run`` and ``check``; ``oncelog pipeline`` calls it.

Exit codes: 0 all went well (a job that was told to stop by SIGTERM too), 1 the job failed or a
check found something, 2 the job's file or the command line is wrong, 130 Ctrl+C.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from pyspark_oncelog.runner.environment import EnvironmentProblem, spark_submit
from pyspark_oncelog.runner.job import Job, JobError
from pyspark_oncelog.runner.job_file import load_job
from pyspark_oncelog.runner.submit import submit_command
from pyspark_oncelog.runner.view import JsonView, RunView, TextView, Totals
from pyspark_oncelog.security_options import OWN_PREFIX

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
JSON_VERSION = 1
"""The version of documents, as the ``oncelog`` command has them: this is ``oncelog pipeline
check``."""
BOOTSTRAP_VARIABLE = "ONCELOG_BOOTSTRAP"


def main(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    chosen, extra = _parser().parse_known_args(list(arguments))
    if extra and extra[0] == "--":
        extra = extra[1:]
    elif extra:
        _parser().error(f"unrecognized arguments: {' '.join(extra)}")
    view: RunView = JsonView(sys.stdout) if chosen.json else TextView(sys.stderr)
    try:
        written = load_job(chosen.job)
        job = with_bootstrap(written, chosen.bootstrap, os.environ)
        if job.bootstrap_servers != written.bootstrap_servers:
            job = with_security(job, chosen.security)
        if chosen.command == "check":
            return _check(job, chosen)
        if chosen.submit:
            _submit(job, chosen, extra)
        if extra:
            _parser().error("arguments after -- are for spark-submit: say --submit")
        return _run(job, view, submitted=chosen.submitted, verbose=chosen.verbose)
    except JobError as error:
        view.failed(Totals(), str(error).splitlines())
        return EXIT_USAGE
    except EnvironmentProblem as error:
        view.failed(Totals(), [str(error)])
        return EXIT_FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="oncelog pipeline", description="Pipelines on Spark.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run a job until it ends or is stopped")
    check = commands.add_parser("check", help="say what can be said without running it")
    for command in (run, check):
        command.add_argument("job", metavar="JOB.TOML")
        command.add_argument("--bootstrap", metavar="HOST:PORT,...", help="over the file's")
        command.add_argument(
            "--security",
            metavar="NAME=VALUE",
            action="append",
            default=[],
            help="of brokers that the file does not name, unless it has [security]; repeatable",
        )
        command.add_argument("--json", action="store_true", help="JSON instead of text, on stdout")
        command.add_argument("--submit", action="store_true", help="by spark-submit")
    run.add_argument(
        "--verbose", action="store_true", help="show what Spark says of a failure, with all frames"
    )
    run.add_argument("--submitted", action="store_true", help=argparse.SUPPRESS)
    check.add_argument("--plan", action="store_true", help="start Spark and analyse the query")
    return parser


def with_bootstrap(job: Job, named: str | None, environment: Mapping[str, str]) -> Job:
    """Return the job with its brokers: the command line's, else the file's, else the variable's."""
    servers = named or job.bootstrap_servers or environment.get(BOOTSTRAP_VARIABLE)
    return replace(job, bootstrap_servers=servers or None)


def with_security(job: Job, given: Sequence[str]) -> Job:
    """Return the job with how connections are secured: the file's, else what a URL of brokers says,
    else the command line's.

    :raises JobError: something on the command line is no NAME=VALUE.
    """
    if job.security or "://" in (job.bootstrap_servers or ""):
        return job
    wrong = [each for each in given if "=" not in each]
    if wrong:
        raise JobError([f"--security {each}: must be NAME=VALUE" for each in wrong])
    pairs = (each.partition("=") for each in given)
    named = {OWN_PREFIX + name.replace("_", "."): value for name, _, value in pairs}
    return replace(job, security=named)


def _check(job: Job, chosen: argparse.Namespace) -> int:
    from pyspark_oncelog.runner.check import check

    findings = check(job, with_plan=chosen.plan, submitted=chosen.submit)
    ok = all(finding.ok for finding in findings)
    if chosen.json:
        bad = [finding for finding in findings if not finding.ok]
        document = {
            "_command": "pipeline check",
            "_version": JSON_VERSION,
            "ok": ok,
            "findings": [asdict(f) for f in findings],
            "errors": [{"item": f.about, "error": "FAILED", "message": f.text} for f in bad],
        }
        lines = [json.dumps(document, indent=2)]
        sys.stderr.writelines(f"error: {finding.about}: {finding.text}\n" for finding in bad)
    else:
        lines = [finding.as_line() for finding in findings]
    sys.stdout.write("\n".join(lines) + "\n")
    return EXIT_OK if ok else EXIT_FAILED


def _submit(job: Job, chosen: argparse.Namespace, extra: Sequence[str]) -> None:
    """Become ``spark-submit``: signals and the exit code are its own."""
    arguments = ["--json"] * chosen.json + ["--verbose"] * chosen.verbose
    if job.bootstrap_servers:
        arguments += ["--bootstrap", job.bootstrap_servers]
    for each in chosen.security:
        arguments += ["--security", each]
    main_file = str(Path(__file__).resolve().parent.parent / "__main__.py")
    command = submit_command(
        spark_submit(), main_file, job, chosen.job, arguments=arguments, extra=extra
    )
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(command[0], command)


def _run(job: Job, view: RunView, *, submitted: bool, verbose: bool) -> int:
    if job.reads_cluster and not job.bootstrap_servers:
        raise JobError(
            [
                'which cluster? bootstrap_servers = "HOST:PORT" in the file, --bootstrap, or '
                f"{BOOTSTRAP_VARIABLE}"
            ]
        )
    from pyspark_oncelog.runner.run import StopFlag, run

    stop = StopFlag()
    try:
        run(job, view, submitted=submitted, stop=stop, verbose=verbose)
    except (JobError, EnvironmentProblem, ImportError):
        raise
    except Exception as error:
        return _failed(error, view, verbose=verbose)
    return EXIT_INTERRUPTED if stop.signal == signal.SIGINT else EXIT_OK


def _failed(error: Exception, view: RunView, *, verbose: bool) -> int:
    """Spark's errors are explained; what nobody expected keeps its traceback.

    :raises Exception: the error itself, when it is not Spark's.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    from pyspark_oncelog.runner.failures import explain

    if not isinstance(error, PySparkException | Py4JError):
        raise error
    view.failed(Totals(), explain(error))
    if verbose:
        sys.stderr.write(f"{error}\n")
    return EXIT_FAILED

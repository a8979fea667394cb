"""``oncelog pipeline`` lets ``pyspark_oncelog`` run jobs on Spark that a file declares.

The command line does not import that package: it becomes it, as a process.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Annotated

from oncelog_cli import typed
from oncelog_cli.clients import client_security
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.commands.demos import pipeline_demo
from oncelog_cli.invocation import CURRENT
from oncelog_cli.options import JsonOption, UsageError, bootstrap_servers
from oncelog_cli.runner import become, own_environment

PACKAGE = "pyspark_oncelog"
PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": False}

app = typed.App(help="Run pipelines on Spark: a job file names sources, a query, a sink.")
app.command("demo")(pipeline_demo)

JobArgument = Annotated[Path, typed.Argument(metavar="JOB.TOML", help="The job: a TOML file.")]
SubmitOption = Annotated[
    bool, typed.Option("--submit", help="By spark-submit, instead of in this process.")
]


@app.command(context_settings=PASS_ON)
def run(
    cluster: NamedCluster,
    context: typed.Context,
    job: JobArgument,
    submit: SubmitOption = False,
    as_json: Annotated[
        bool, typed.Option("--json", help="Progress as JSON lines on stdout.")
    ] = False,
    verbose: Annotated[
        bool,
        typed.Option("--verbose", help="Show what Spark says of a failure, with all frames."),
    ] = False,
) -> None:
    """Run a job until it has read what there is, or SIGTERM or Ctrl+C stop it.

    The brokers are those of --bootstrap, else of the file, else of $ONCELOG_BOOTSTRAP, else the
    local cluster's. How connections are secured the file says, or the profile. With --submit, what
    comes after -- goes to spark-submit.
    """
    arguments = ["run", str(job), *["--submit"] * submit, *["--json"] * as_json]
    arguments += ["--verbose"] * verbose
    arguments += [*_servers(cluster), *_security()]
    if context.args:
        arguments += ["--", *context.args]
    _become(arguments)


@app.command()
def check(
    cluster: NamedCluster,
    job: JobArgument,
    submit: SubmitOption = False,
    plan: Annotated[
        bool, typed.Option("--plan", help="Start Spark as well, and let it analyse the query.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Say what can be said of a job without running it: file, options, Spark, Java, topics."""
    arguments = ["check", str(job), *["--submit"] * submit, *["--plan"] * plan]
    arguments += ["--json"] * as_json
    arguments += [*_servers(cluster), *_security()]
    _become(arguments)


def _servers(cluster: NamedCluster) -> list[str]:
    """Return the arguments that tell the runner where the cluster is.

    :raises UsageError: the command line says something that the runner does not take.
    """
    invocation = CURRENT.get()
    if invocation.options.keys() - {"bootstrap_servers"}:
        raise UsageError("-X: options of a job's clients stand in its file")
    if cluster.named is None and invocation.profile is None and not invocation.options:
        return []
    return ["--bootstrap", cluster.servers]


def _security() -> list[str]:
    """Return the arguments that tell the runner how the profile secures connections: it takes them
    for brokers that the job's file does not name.

    :raises UsageError: there is a secret among them, which a command line would show.
    """
    security = client_security()
    if security is None:
        return []
    from oncelog.security import NAMED_OPTIONS

    given = {name: getattr(security, name) for name in NAMED_OPTIONS}
    for secret in ("password", "token"):
        if given.pop(secret, None) is not None:
            raise UsageError(
                f"the profile has a {secret}, which a pipeline would show to others: give the"
                f" profile {secret}_file, or a job's file a table [security]"
            )
    options = {name: value for name, value in given.items() if value is not None}
    texts = {name: "true" if value is True else str(value) for name, value in options.items()}
    return [part for name, text in texts.items() for part in ("--security", f"{name}={text}")]


def _become(arguments: list[str]) -> None:
    """Become the runner.

    :raises UsageError: it is not part of this installation.
    """
    if importlib.util.find_spec(PACKAGE) is None:
        raise UsageError("'oncelog pipeline' is not part of this installation")
    environment = own_environment()
    try:
        # Below the file's own word for it, which the runner reads.
        environment["ONCELOG_BOOTSTRAP"] = bootstrap_servers(None)
    except UsageError:
        pass
    become([sys.executable, "-m", PACKAGE, *arguments], environment)

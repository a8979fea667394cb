"""The security of the driver and the executors is read from options here.

``oncelog.security.<name>`` has the names of :class:`oncelog.Security` with dots
(``oncelog.security.ca.file``); Kafka's names with their prefix are understood as well
(``kafka.security.protocol``, ``kafka.ssl.ca.location``).

Rules
-----
* No secret is an option: Spark writes options into plans, into its event log and into its UI. A
  password or a token is named by a file, or by a variable of the environment, and is read in the
  process that opens the connection. What is pickled has the names alone.
* Files lie where connections are opened: on the driver, and on every executor. One that is missing
  is named with its machine.
* An option of security that is not understood is refused, never left out in silence.
"""

from __future__ import annotations

import difflib
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark_oncelog.option_values import OptionError

if TYPE_CHECKING:
    from oncelog import Security

__all__ = ["OWN_PREFIX", "SecurityOptions", "is_of_security", "parse_security"]

OWN_PREFIX = "oncelog.security."
"""Options that are ours begin like this."""
_PREFIXES = ("kafka.", "oncelog.")
_OWN = "security."
_PROTOCOL = "protocol"
_OF_KAFKA = ("security.protocol", "ssl.", "sasl.", "enable.ssl.")
"""Kafka's options of security begin like this."""
_SECRETS = ("password", "token")
_HARMFUL = {
    "password": "password",
    "sasl.password": "password",
    "token": "token",
    "sasl.jaas.config": "password",
}
"""Options with a secret in them, and which secret it is."""


def is_of_security(name: str) -> bool:
    """Return whether an option, in lower case, says how connections are secured."""
    bare = _bare(name)
    return bare is not None and (bare.startswith(_OWN) or bare.startswith(_OF_KAFKA))


def _bare(name: str) -> str | None:
    prefix = next((each for each in _PREFIXES if name.startswith(each)), None)
    return None if prefix is None else name.removeprefix(prefix)


@dataclass(frozen=True, slots=True)
class SecurityOptions:
    """They name files and variables, and hold no secret. They may be pickled, and be a key."""

    settings: tuple[tuple[str, Any], ...]
    """Options of ``oncelog.Security`` by name."""
    variables: tuple[tuple[str, str], ...] = ()
    """Secrets by name, and the variables of the environment that hold them."""

    def here(self) -> Security:
        """Return what secures the connections of this process.

        :raises OptionError: a file or a variable is missing here; the text says on which machine.
        """
        from oncelog import Security

        for name, value in self.settings:
            if name.endswith("_file"):
                _check_file(name, value)
        options: dict[str, Any] = dict(self.settings)
        options |= {name: _variable(name, variable) for name, variable in self.variables}
        return Security(**options)


def parse_security(given: Mapping[str, str], servers: str) -> SecurityOptions | None:
    """Return what the options of a source or a sink say, whose names are in lower case; None: they
    say nothing of security.

    :param servers: the addresses of the brokers, which may be a URL that says it itself.
    :raises OptionError: a secret is an option, one is not understood, or they do not fit together.
    """
    from oncelog.bootstrap_url import split_url
    from oncelog.errors import ConfigurationError

    named: dict[str, str] = {}
    for name, value in given.items():
        if is_of_security(name):
            short = _short(name)
            if named.setdefault(short, value) != value:
                raise OptionError(f"{name} is given twice, with different values")
    try:
        by_url = split_url(servers)[1]
        found = _understood(named)
    except ConfigurationError as error:
        raise OptionError(str(error)) from None
    if by_url is not None and found is not None:
        raise OptionError(
            "bootstrap.servers is a URL that says how to connect, and so do options of security:"
            " say it once"
        )
    return found


def _short(name: str) -> str:
    """Return the name that an option has for ``parted``, or ``password_env``.

    :raises OptionError: it has a secret as its value, or is not understood.
    """
    from oncelog.security import NAMED_OPTIONS
    from oncelog.security_settings import SECURITY_NAMES

    bare = _bare(name) or ""
    own = bare.startswith(_OWN) and bare != _OWN + _PROTOCOL
    plain = bare.removeprefix(_OWN) if own else bare
    secret = _HARMFUL.get(plain)
    if secret is not None:
        raise OptionError(
            f"{name}: an option is in the query plan, in Spark's event log and in its UI, and so"
            f" would the {secret} be: give {OWN_PREFIX}{secret}.file, a path on the driver and on"
            f" every executor, or {OWN_PREFIX}{secret}.env, the name of a variable there"
        )
    allowed = [each for each in NAMED_OPTIONS if each not in _SECRETS]
    allowed += [f"{each}_env" for each in _SECRETS]
    if not own:
        allowed = [each for each in SECURITY_NAMES if each not in NAMED_OPTIONS]
    short = plain.replace(".", "_")
    if short in allowed:
        return short
    listed = [(OWN_PREFIX if own else "kafka.") + each.replace("_", ".") for each in allowed]
    near = difflib.get_close_matches(name, listed, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(listed)}"
    raise OptionError(f"{name}: there is no such option of security; {hint}")


def _understood(named: dict[str, str]) -> SecurityOptions | None:
    """Return what options say together.

    :raises ConfigurationError: they do not fit together, or are refused.
    """
    from oncelog.security_settings import combined, parted

    variables: dict[str, str] = {}
    for secret in _SECRETS:
        variable = named.pop(f"{secret}_env", None)
        if variable is None:
            continue
        if not variable or "=" in variable or "\0" in variable:
            raise OptionError(f"{OWN_PREFIX}{secret}.env: must be the name of a variable")
        variables[secret] = variable
    own = parted(named)[0]
    # Whether they fit together shows with any secret: the real one may be on executors alone.
    if combined([{**own, **dict.fromkeys(variables, "secret")}]) is None:
        return None
    settings = tuple(sorted((name, value) for name, value in own.items() if value is not False))
    return SecurityOptions(settings, tuple(sorted(variables.items())))


def _check_file(name: str, path: str) -> None:
    if os.access(path, os.R_OK) and Path(path).is_file():
        return
    raise OptionError(
        f"{_dotted(name)}: {Path(path).absolute()} is not there on {_this_process()}, or may not"
        " be read: the file must lie at this path on the driver and on every executor"
    )


def _variable(name: str, variable: str) -> str:
    value = os.environ.get(variable)
    if value:
        return value
    raise OptionError(
        f"{OWN_PREFIX}{name}.env: the variable {variable} is not set on {_this_process()}: set it"
        " on the driver and on every executor"
    )


def _dotted(name: str) -> str:
    return OWN_PREFIX + name.replace("_", ".")


def _this_process() -> str:
    """Return where this is, for who looks for a file there."""
    from pyspark import TaskContext

    role = "the driver" if TaskContext.get() is None else "an executor"
    return f"{socket.gethostname()} ({role})"

"""A secured cluster on this machine has a CA, certificates of brokers, and an admin.

Brokers prove to each other by certificates which broker they are; clients prove by a password who
they are. The certificates are in ``<directory>/tls``, as ``oncelog_cli.tls.authority`` has them,
and last as long as the CA. The password of the admin is in ``<directory>/admin.password``. A
profile of the user's names these files, so that commands need no options: it is known by the file
with the password. What brokers keep in a ZooKeeper of the cluster's own is for them alone, by the
password in ``<directory>/zookeeper.password``.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from oncelog_cli import extras
from oncelog_cli.local.process import LocalClusterError
from oncelog_cli.local.toml_writer import Value
from oncelog_cli.profiles import Profile, Profiles

ADMIN = "admin"
"""This user may do everything."""
PASSWORD_BYTES = 24
"""The admin's password has so much chance in it."""
ZOOKEEPER_USER = "oncelog"
"""To ZooKeeper all brokers are this user."""
ZOOKEEPER_CHROOT = "/oncelog"
"""Brokers keep everything below this node, which they have made, so that it is theirs."""
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
HOSTS = ("127.0.0.1", "localhost", "::1")
NAME_DEFAULT = "local"
"""It is the profile's name where the directory's makes none."""


def security_settings() -> dict[str, Value]:
    """Return settings of every broker: nobody may what no ACL allows, but for the admin."""
    return {"authorizer": "acl", "super_users": [f"User:{ADMIN}"]}


def broker_name(broker_id: int) -> str:
    """Return whom the certificate of a broker names: what ``broker_principal`` has by default."""
    return f"broker-{broker_id}"


def tls_directory(directory: Path) -> Path:
    """Return where the CA and the certificates of a cluster are."""
    return directory / "tls"


def password_file(directory: Path) -> Path:
    """Return the file with the admin's password."""
    return directory / "admin.password"


def owned(directory: Path) -> list[Path]:
    """Return the paths of what a secured cluster has in its directory and others have not."""
    passwords = (password_file(directory), zookeeper_password_file(directory))
    return [tls_directory(directory), *passwords, *(_unconfirmed(each) for each in passwords)]


def zookeeper_password_file(directory: Path) -> Path:
    """Return the file with the password by which ZooKeeper knows the brokers."""
    return directory / "zookeeper.password"


def zookeeper_settings(directory: Path) -> dict[str, Value]:
    """Return settings of every broker whose ZooKeeper is this cluster's own: what they make there
    is for them alone."""
    return {
        "zookeeper_user": ZOOKEEPER_USER,
        "zookeeper_password_file": str(zookeeper_password_file(directory)),
        "zookeeper_acl": "creator",
    }


def make_zookeeper_password(directory: Path) -> None:
    """Draw the password by which ZooKeeper knows the brokers, if there is none yet."""
    place = zookeeper_password_file(directory)
    if not place.exists():
        begun = _unconfirmed(place)
        begun.unlink(missing_ok=True)  # a start that was cut off may have left a part
        write_private(begun, secrets.token_urlsafe(PASSWORD_BYTES))
        begun.replace(place)


def listener_settings(directory: Path, broker_id: int) -> tuple[dict[str, Value], dict[str, Value]]:
    """Return what two listeners of a broker have beside their addresses: the one between brokers,
    and the one for clients."""
    place, name = tls_directory(directory), broker_name(broker_id)
    every: dict[str, Value] = {
        "tls_certificate_file": str(place / f"{name}.pem"),
        "tls_key_file": str(place / f"{name}.key"),
        "tls_min_version": "1.3",
    }
    by_certificate: dict[str, Value] = {
        "tls_client_ca_file": str(place / "ca.pem"),
        "tls_client_auth": "required",
    }
    return every | by_certificate, every | {"sasl_mechanisms": list(MECHANISMS)}


def client_security(directory: Path) -> dict[str, str]:
    """Return the options of a client's security by which it is the admin."""
    return {
        "ca_file": str(tls_directory(directory) / "ca.pem"),
        "username": ADMIN,
        "password_file": str(password_file(directory)),
    }


def make_missing(directory: Path, broker_ids: Iterable[int]) -> list[str]:
    """Make the certificates that are not there yet; return whose they are.

    :raises UsageError: the package that makes them is not installed.
    :raises CommandError: the CA is not whole, or a file cannot be written.
    """
    extras.need("local", extras.CERTIFICATES, "a secured cluster on this machine")
    from oncelog_cli.tls.authority import CA_DAYS, CertificateDirectory, Holder

    wanted = [Holder(broker_name(each), HOSTS) for each in broker_ids]
    certificates = CertificateDirectory(tls_directory(directory), datetime.now(UTC))
    missing = [
        each
        for each in wanted
        if not certificates.certificate_file(each.name).exists()
        or not certificates.key_file(each.name).exists()
    ]
    # Half a pair is what a start that was cut off has left.
    made = certificates.make(missing, days=CA_DAYS, force=True) if missing else []
    return [each.name for each in made]


def make_admin(directory: Path, add_user: Callable[[str, Path], bool]) -> bool:
    """Make the admin with a random password; return False if that was done before.

    The password's file gets its name when the user is there. A start that was cut off in between
    left the file under another name: the next one takes the same password.

    :param add_user: makes a user with the password in a file; it returns False if there is such
        a user already.
    :raises LocalClusterError: it was not made.
    """
    place = password_file(directory)
    if place.exists():
        return False
    unconfirmed = _unconfirmed(place)
    begun = unconfirmed.exists()
    if not begun:
        write_private(unconfirmed, secrets.token_urlsafe(PASSWORD_BYTES))
    if not add_user(ADMIN, unconfirmed) and not begun:
        unconfirmed.unlink()
        raise LocalClusterError(
            f"ZooKeeper knows a user {ADMIN} of an earlier cluster, and {place} with the password "
            "is not there. Remedy: put the file back, or use another place in ZooKeeper, as with "
            "--zookeeper HOST:PORT/NAME"
        )
    unconfirmed.replace(place)
    return True


def _unconfirmed(password: Path) -> Path:
    """Return how the file is called before what it is for is there."""
    return password.with_name(f"{password.name}.new")


def write_private(path: Path, text: str) -> None:
    """Write a new file that nobody else may read.

    :raises FileExistsError: there is such a file already.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(f"{text}\n")


# -- profiles ------------------------------------------------------------------------------------


def profile_of(profiles: Profiles, directory: Path) -> str | None:
    """Return the name of the admin's profile for the cluster in a directory; None: there is none.

    A person may have renamed or changed it: it is still the one that names the admin's password.
    Those of other users name the same CA, and another password.
    """
    password = str(password_file(directory))
    for name, profile in sorted(profiles.profiles.items()):
        if profile.security.get("password_file") == password:
            return name
    return None


def with_profile_for(profiles: Profiles, directory: Path, bootstrap: str) -> tuple[Profiles, str]:
    """Return the profiles with one for a cluster, and its name.

    It is in use if no other one is. What a person has added to it stays.
    """
    name = profile_of(profiles, directory)
    if name is None:
        name = _free_name(profiles.profiles, directory.name)
        described = f"the cluster in {directory}, as User:{ADMIN}"
        profile = Profile(bootstrap, described, {}, client_security(directory))
    else:
        known = profiles.profiles[name]
        profile = Profile(bootstrap, known.description, known.options, known.security)
    changed = profiles.with_profile(name, profile)
    return changed if changed.current is not None else changed.used(name), name


def _free_name(taken: Mapping[str, Profile], directory_name: str) -> str:
    base = re.sub(r"[^A-Za-z0-9_-]", "-", directory_name).strip("-_")[:48] or NAME_DEFAULT
    number, name = 1, base
    while name in taken:
        number += 1
        name = f"{base}-{number}"
    return name

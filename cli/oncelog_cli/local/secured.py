"""A secured cluster on this machine has a CA, a certificate a broker, and one for its admin.

They are in ``<directory>/tls``, as ``oncelog_cli.tls.authority`` has them, and last as long as the
CA. A profile of the user's names them, so that commands need no options: it is known by the CA's
file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from oncelog_cli import extras
from oncelog_cli.local.toml_writer import Value
from oncelog_cli.profiles import Profile, Profiles

if TYPE_CHECKING:
    from oncelog_cli.tls.authority import Holder

ADMIN = "admin"
"""This user may do everything."""
HOSTS = ("127.0.0.1", "localhost", "::1")
NAME_DEFAULT = "local"
"""It is the profile's name where the directory's makes none."""


def security_settings() -> dict[str, Value]:
    """Return settings of every broker: nobody may what no ACL allows, but for the admin."""
    return {"authorizer": "acl", "super_users": [f"User:{ADMIN}"]}


def broker_name(broker_id: int) -> str:
    """Return whom the certificate of a broker names: what ``broker_principal`` has by default."""
    return f"broker-{broker_id}"


def listener_settings(place: Path, broker_id: int) -> dict[str, Value]:
    """Return what every listener of a broker has beside its address.

    :param place: the directory of the certificates.
    """
    name = broker_name(broker_id)
    return {
        "tls_certificate_file": str(place / f"{name}.pem"),
        "tls_key_file": str(place / f"{name}.key"),
        "tls_client_ca_file": str(place / "ca.pem"),
        "tls_client_auth": "required",
        "tls_min_version": "1.3",
    }


def client_security(place: Path, name: str = ADMIN) -> dict[str, str]:
    """Return the options of a client's security by which it is this user."""
    return {
        "ca_file": str(place / "ca.pem"),
        "certificate_file": str(place / f"{name}.pem"),
        "key_file": str(place / f"{name}.key"),
    }


def make_missing(place: Path, broker_ids: Iterable[int]) -> list[str]:
    """Make the certificates that are not there yet; return whose they are.

    :raises UsageError: the package that makes them is not installed.
    :raises CommandError: the CA is not whole, or a file cannot be written.
    """
    extras.need("local", extras.CERTIFICATES, "a secured cluster on this machine")
    from oncelog_cli.tls.authority import CA_DAYS, CertificateDirectory, Holder

    wanted: list[Holder] = [Holder(broker_name(each), HOSTS) for each in broker_ids]
    wanted.append(Holder(ADMIN))
    certificates = CertificateDirectory(place, datetime.now(UTC))
    missing = [
        each
        for each in wanted
        if not certificates.certificate_file(each.name).exists()
        or not certificates.key_file(each.name).exists()
    ]
    # Half a pair is what a start that was cut off has left.
    made = certificates.make(missing, days=CA_DAYS, force=True) if missing else []
    return [each.name for each in made]


# -- profiles ------------------------------------------------------------------------------------


def profile_of(profiles: Profiles, place: Path) -> str | None:
    """Return the name of the profile for the cluster with these certificates; None: there is none.

    A person may have renamed or changed it: it is still the one whose CA is this.
    """
    ca_file = client_security(place)["ca_file"]
    names = sorted(profiles.profiles)
    of_it = (each for each in names if profiles.profiles[each].security.get("ca_file") == ca_file)
    return next(of_it, None)


def with_profile_for(
    profiles: Profiles, directory: Path, place: Path, bootstrap: str
) -> tuple[Profiles, str]:
    """Return the profiles with one for a cluster, and its name.

    It is in use if no other one is. What a person has added to it stays.
    """
    name = profile_of(profiles, place)
    if name is None:
        name = _free_name(profiles.profiles, directory.name)
        described = f"the cluster in {directory}, as User:{ADMIN}"
        profile = Profile(bootstrap, described, {}, client_security(place))
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

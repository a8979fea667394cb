"""A compose network is a bridge and a network namespace a container, as Docker lays it out.

The bridge is in a namespace of its own, which stands for the host: nothing of the machine's network
is touched. Names in the network are a hosts file, in the place of Docker's name server: a name is
there as long as its container runs. Who asks for another one asks a name server that never answers.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["Network", "why_not"]

PREFIX = "oncelog-"
SUBNET = "172.18.0"
"""The first that Compose takes for a network of its own."""
NAME_SERVER = "192.0.2.53"
"""It is an address for documentation (RFC 5737): packets to it are lost. Docker passes on what it
does not know to the machine's name servers, and those may be out of reach."""
PROGRAMS = ("chroot", "ip", "mount", "nsenter", "setpriv", "unshare")


def why_not() -> str | None:
    """Say why containers cannot be imitated on this machine, or return None when they can."""
    if sys.platform != "linux":
        return "network namespaces are Linux's"
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"programs are missing: {', '.join(missing)}"
    tried = subprocess.run(
        ["unshare", "--net", "--mount", "--pid", "--fork", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"no namespaces: {tried.stderr.strip()}" if tried.returncode else None


class Network:
    """The network includes the host that it is on.

    :param label: it tells the networks of one test run apart.
    """

    def __init__(self, directory: Path, label: str = "") -> None:
        self._prefix = f"{PREFIX}{os.getpid()}-{label}"
        self.host = f"{self._prefix}host"
        self.hosts_file = directory / "hosts"
        self.resolver_file = directory / "resolv.conf"
        self.resolver_file.write_text(f"nameserver {NAME_SERVER}\n", encoding="ascii")
        self._addresses: dict[str, str] = {}
        self._running: dict[str, str] = {}
        _sweep()
        _ip("netns", "add", self.host)
        _ip("-n", self.host, "link", "set", "lo", "up")
        _ip("-n", self.host, "link", "add", "bridge", "type", "bridge")
        _ip("-n", self.host, "addr", "add", f"{SUBNET}.1/16", "dev", "bridge")
        _ip("-n", self.host, "link", "set", "bridge", "up")
        self._write_hosts()

    def namespace(self, name: str) -> str:
        """Return the network namespace of a container; make it first if need be."""
        namespace = f"{self._prefix}{name}"
        if name not in self._addresses:
            address = f"{SUBNET}.{len(self._addresses) + 2}"
            self._addresses[name] = address
            cable = f"veth{len(self._addresses)}"
            _ip("netns", "add", namespace)
            _ip("-n", self.host, "link", "add", cable, "type", "veth",
                "peer", "name", "eth0", "netns", namespace)  # fmt: skip
            _ip("-n", self.host, "link", "set", cable, "master", "bridge", "up")
            _ip("-n", namespace, "link", "set", "lo", "up")
            _ip("-n", namespace, "addr", "add", f"{address}/16", "dev", "eth0")
            _ip("-n", namespace, "link", "set", "eth0", "up")
            _ip("-n", namespace, "route", "add", "default", "via", f"{SUBNET}.1")
        return namespace

    def address(self, name: str) -> str:
        self.namespace(name)
        return self._addresses[name]

    def register(self, name: str) -> None:
        """The container runs: its name can be looked up."""
        self._running[name] = self.address(name)
        self._write_hosts()

    def unregister(self, name: str) -> None:
        """The container has ended: nobody finds its name any more."""
        self._running.pop(name, None)
        self._write_hosts()

    def close(self) -> None:
        """Take everything down. Processes in it must have ended."""
        for name in self._addresses:
            _ip("netns", "del", self.namespace(name))
        _ip("netns", "del", self.host)

    def _write_hosts(self) -> None:
        # In place: containers have this very file mounted.
        lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
        lines += [f"{address} {name}" for name, address in self._running.items()]
        self.hosts_file.write_text("\n".join(lines) + "\n", encoding="ascii")


def _sweep() -> None:
    """Remove namespaces that a test run left behind when it was killed."""
    folder = Path("/run/netns")
    for left in folder.glob(f"{PREFIX}*-*") if folder.is_dir() else []:
        owner = left.name.removeprefix(PREFIX).partition("-")[0]
        if owner.isdecimal() and not Path(f"/proc/{owner}").exists():
            with contextlib.suppress(subprocess.CalledProcessError):
                _ip("netns", "del", left.name)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)

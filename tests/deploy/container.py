"""It runs a service of the compose file from a built image, as an engine would: same file system,
same user, environment, mounts and rights, in network, process and mount namespaces of its own.

All mounts are in the container's mount namespace and go with it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deploy.compose_file import HealthCheck, Service
from deploy.image import Image, system_mounts
from deploy.network import Network

__all__ = ["Container", "Finished", "Limits"]

DIES_WITH_US = ("setpriv", "--pdeathsig", "KILL")
"""A test run that is killed leaves no containers behind."""
POLL_S = 0.05
HEALTH_POLL_S = 0.4


@dataclass(frozen=True)
class Limits:
    """A container may not exceed these."""

    read_only: bool = False
    no_capabilities: bool = False
    capabilities: tuple[str, ...] = ()
    """Those that are left when it has none else."""
    no_new_privileges: bool = False
    tmpfs: tuple[str, ...] = ()

    @classmethod
    def of(cls, service: Service) -> Limits:
        """Return what the compose file says."""
        assert service.cap_drop in ((), ("ALL",))
        return cls(
            service.read_only,
            bool(service.cap_drop),
            tuple(each.lower() for each in service.cap_add),
            service.no_new_privileges,
            service.tmpfs,
        )


@dataclass(frozen=True)
class Finished:
    """The command has ended."""

    code: int
    output: str
    errors: str


@dataclass
class Container:
    """It can be started again, with the same volumes and a fresh file system."""

    name: str
    image: Image
    network: Network
    directory: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    volumes: Mapping[str, Path] = field(default_factory=dict)
    """Place in the container to directory here."""
    read_only_volumes: frozenset[str] = frozenset()
    """Those places of volumes that are only read."""
    limits: Limits = field(default_factory=Limits)
    healthcheck: HealthCheck | None = None
    ports: Sequence[tuple[str, int, int]] = ()
    user: str | None = None
    process: subprocess.Popen[bytes] | None = None
    _forwarders: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def log(self) -> str:
        """Return what it wrote, over all its starts."""
        path = self.directory / "log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def start(self, command: Sequence[str] = ()) -> None:
        """Start the image's entrypoint, with ``command`` as its arguments."""
        assert self.process is None or self.process.poll() is not None, f"{self.name} runs"
        self.directory.mkdir(parents=True, exist_ok=True)
        namespace = self.network.namespace(self.name)
        script = "\n".join(
            ["set -e", *self._mounts(), self._enter([*self.image.entrypoint, *command])]
        )
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*DIES_WITH_US, "nsenter", f"--net=/run/netns/{namespace}", "unshare", "--mount",
                 "--pid", "--fork", "--kill-child", "--ipc", "--uts", "/bin/sh", "-c", script],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.network.register(self.name)
        for address, published, target in self.ports:
            self._publish(address, published, target)

    def wait(self, timeout_s: float) -> int:
        """Return the exit code, or minus the number of the signal that ended it."""
        assert self.process is not None
        code = self.process.wait(timeout_s)
        self._gone()
        return code

    def stop(self, timeout_s: float) -> int:
        """Send the image's signal to the first process and wait, as ``docker stop`` does."""
        self.signal(signal.Signals[self.image.stop_signal])
        return self.wait(timeout_s)

    def kill(self) -> None:
        """Kill it as ``docker kill`` does; do nothing when it has ended."""
        if self.process is not None and self.process.poll() is None:
            self.signal(signal.SIGKILL)
            self.wait(10.0)
        self._gone()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the container's first process."""
        os.kill(self.first_process(), number)

    def first_process(self) -> int:
        """Return the pid, outside, of the process that is 1 inside."""
        assert self.process is not None
        pid = self.process.pid
        deadline = time.monotonic() + 10.0
        while time.monotonic() < deadline:
            assert self.process.poll() is None, f"{self.name} has ended:\n{self.log}"
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            if children and _has_its_own_root(children[0]):
                return int(children[0])
            time.sleep(POLL_S)
        raise AssertionError(f"{self.name} has not started its first process")

    def execute(self, command: Sequence[str], timeout_s: float = 60.0) -> Finished:
        """Run a command beside the first process, as ``docker exec`` does."""
        inside = ["nsenter", "--target", str(self.first_process()), "--net", "--mount", "--pid",
                  "--ipc", "--uts", "--root", *self._as_user(command)]  # fmt: skip
        done = subprocess.run(
            inside, capture_output=True, text=True, check=False, timeout=timeout_s
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    def health(self) -> Finished:
        """Run the health check once."""
        check = self.healthcheck or self.image.healthcheck
        assert check is not None, f"{self.name} has no health check"
        try:
            return self.execute(check.command, check.timeout_s)
        except subprocess.TimeoutExpired as expired:
            return Finished(1, "", str(expired))

    def wait_healthy(self, timeout_s: float) -> None:
        """Wait as ``depends_on: condition: service_healthy`` does, but check more often."""
        deadline = time.monotonic() + timeout_s
        while (found := self.health()).code != 0:
            assert time.monotonic() < deadline, f"{self.name}: {found}\n{self.log[-5000:]}"
            time.sleep(HEALTH_POLL_S)  # each is a Python that starts

    # ---- parts of the script

    def _mounts(self) -> list[str]:
        fresh = self.directory / "files"
        shutil.rmtree(fresh, ignore_errors=True)
        upper, work, root = fresh / "upper", fresh / "work", fresh / "root"
        for folder in (upper, work, root):
            folder.mkdir(parents=True)
        lower = f"lowerdir={self.image.root},upperdir={upper},workdir={work}"
        mounts = [f"mount -t overlay overlay -o {lower} {root}", *system_mounts(root)]
        mounts += [
            f"mount -t tmpfs -o mode=1777 tmpfs {root}{place}" for place in self.limits.tmpfs
        ]
        anonymous = dict.fromkeys(self.image.volumes, fresh / "anonymous")
        for place, volume in {**anonymous, **self.volumes}.items():
            self._fill(volume, place)
            mounts.append(f"mkdir -p {root}{place}")
            mounts.append(f"mount --bind {volume} {root}{place}")
            if place in self.read_only_volumes:
                mounts.append(f"mount -o remount,bind,ro {root}{place}")
        mounts.append(f"mount --bind {self.network.hosts_file} {root}/etc/hosts")
        mounts.append(f"mount --bind {self.network.resolver_file} {root}/etc/resolv.conf")
        if self.limits.read_only:
            mounts.append(f"mount -o remount,ro {root}")
        mounts.append(f"hostname {self.name}")
        return mounts

    def _fill(self, volume: Path, place: str) -> None:
        """A new volume takes over the owner and the mode of the place in the image."""
        if volume.exists():
            return
        volume.mkdir(parents=True)
        in_image = self.image.root / place.lstrip("/")
        if not in_image.exists():
            return  # root's
        status = in_image.stat()
        os.chown(volume, status.st_uid, status.st_gid)
        volume.chmod(status.st_mode & 0o7777)

    def _enter(self, command: Sequence[str]) -> str:
        root = self.directory / "files" / "root"
        return shlex.join(["exec", "chroot", str(root), *self._as_user(command)])

    def _as_user(self, command: Sequence[str]) -> list[str]:
        user, _, group = (self.user or self.image.user).partition(":")
        words = ["/usr/bin/setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups"]
        words += DIES_WITH_US[1:]  # a change of user takes it away
        if self.limits.no_capabilities:
            kept = "".join(f",+{each}" for each in self.limits.capabilities)
            words += [f"--bounding-set=-all{kept}", "--inh-caps=-all"]
        if self.limits.no_new_privileges:
            words.append("--no-new-privs")
        words += ["/usr/bin/env", "-i", "-C", self.image.working_directory]
        environment = {**self.image.environment, "HOSTNAME": self.name, **self.environment}
        return [*words, *(f"{name}={value}" for name, value in environment.items()), *command]

    def _publish(self, address: str, published: int, target: int) -> None:
        program = Path(__file__).with_name("port_forward.py")
        here = self.network.address(self.name)
        forwarder = subprocess.Popen(
            [*DIES_WITH_US, "nsenter", f"--net=/run/netns/{self.network.host}", sys.executable,
             "-I", str(program), address, str(published), here, str(target)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        )  # fmt: skip
        self._forwarders.append(forwarder)
        assert forwarder.stdout is not None
        assert forwarder.stdout.readline() == b"listening\n"

    def _gone(self) -> None:
        for forwarder in self._forwarders:
            forwarder.kill()
            forwarder.wait()
            if forwarder.stdout is not None:
                forwarder.stdout.close()
        self._forwarders.clear()
        self.network.unregister(self.name)


def _has_its_own_root(pid: str) -> bool:
    """Return whether it has: before that, commands would land in the machine's own file system."""
    try:
        return os.readlink(f"/proc/{pid}/root") != "/"
    except OSError:
        return False  # it has ended

"""It imitates ``docker compose up``: the services of the compose file are in containers of ours."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from deploy.compose_file import Compose, Service, load
from deploy.container import Container, Finished, Limits
from deploy.image import Image, base_image, build
from deploy.network import Network
from deploy.zookeeper_image import JAVA, java_home, zookeeper_image

__all__ = ["Project"]

START_S = 60.0
NOBODY = 65534
SECRETS = "/run/secrets"
PREFIX = "oncelog-compose-"
MEMORY_BYTES_MIN = 2 * 1024**3


class Project:
    """It runs the cluster of the compose file. ``up`` once, ``close`` always.

    :param variables: what stands in the environment of ``docker compose``.
    :param image: the image that the repository makes; None: it is built.
    """

    def __init__(
        self,
        repository: Path,
        *profiles: str,
        variables: Mapping[str, str] | None = None,
        image: Image | None = None,
    ) -> None:
        self.repository = repository
        self.profiles = profiles
        self.variables = dict(variables or {})
        self.compose: Compose = load(repository / "docker-compose.yml", variables)
        self.directory = _directory()
        self.network: Network | None = None
        self.containers: dict[str, Container] = {}
        try:
            self.image = image or build(repository, self.directory / "image")
            label = "".join(f"{profile}-" for profile in profiles)
            self.network = Network(self.directory, label)
        except BaseException:
            self.close()
            raise

    def up(self) -> None:
        """Start the services in their order, each when those that it waits for are healthy."""
        one_shots: set[str] = set()
        for service in self.compose.started(*self.profiles):
            for other, condition in service.depends_on.items():
                if other in service.may_lack and other not in self.containers:
                    continue
                if condition == "service_healthy":
                    self.containers[other].wait_healthy(START_S)
                elif other not in one_shots:
                    assert condition == "service_completed_successfully"
                    one_shots.add(other)
                    assert self.containers[other].wait(START_S) == 0, self.containers[other].log
            self.containers[service.name] = container = self._container(service)
            container.start(service.command)
        for name in self.containers.keys() - one_shots:
            self.containers[name].wait_healthy(START_S)

    def run(self, name: str) -> Container:
        """Make a container of a service that is not up (``docker compose run --rm``)."""
        self.containers[name] = container = self._container(self.compose.services[name])
        return container

    def start_prometheus(self, program: Path) -> Container:
        """Start the Prometheus of the monitoring profile, with a binary in place of its image."""
        image = base_image(self.directory / "prometheus-image")
        for place in ("etc/prometheus", "prometheus", "opt/prometheus"):
            (image.root / place).mkdir()
            os.chown(image.root / place, NOBODY, NOBODY)
        image.user = f"{NOBODY}:{NOBODY}"
        # The image's own entrypoint and command.
        image.entrypoint = [
            f"/opt/prometheus/{program.name}",
            "--config.file=/etc/prometheus/prometheus.yml",
            "--storage.tsdb.path=/prometheus",
        ]
        service = self.compose.services["prometheus"]
        self.containers["prometheus"] = container = self._container(service, image)
        container.volumes = {**container.volumes, "/opt/prometheus": program.parent}
        container.start()
        return container

    def one_off(self, name: str, like: str, **changes: object) -> Container:
        """Add a container to the network (``docker compose run``), with the settings of a service
        and no ports, volumes or entrypoint of its own but those that are given."""
        service = self.compose.services[like]
        assert self.network is not None
        container = Container(
            name,
            self.image,
            self.network,
            self.directory / name,
            environment=service.environment,
            limits=Limits.of(service),
        )
        for key, value in changes.items():
            setattr(container, key, value)
        self.containers[name] = container
        return container

    def close(self) -> None:
        """End everything and leave nothing behind."""
        for container in self.containers.values():
            container.kill()
        if self.network is not None:
            self.network.close()
        shutil.rmtree(self.directory)

    def logs(self) -> str:
        """Return the ends of all logs, for a failure's message."""
        return "\n".join(f"== {c.name}\n{c.log[-3000:]}" for c in self.containers.values())

    def _container(self, service: Service, image: Image | None = None) -> Container:
        assert self.network is not None
        named = self.directory / "volumes"
        volumes = {
            target: self.repository / source if source.startswith(".") else named / source
            for source, target, _ in service.volumes
        }
        if service.secrets:
            volumes[SECRETS] = self._secrets(service)
        if image is None and not service.builds:
            assert service.image.startswith("zookeeper:"), service.image
            image = zookeeper_image(self.directory / "zookeeper-image", service.environment)
            volumes[JAVA] = java_home()
        image = image or self.image
        if service.entrypoint is not None:
            image = replace(image, entrypoint=list(service.entrypoint))
        return Container(
            service.name,
            image,
            self.network,
            self.directory / service.name,
            environment=service.environment,
            volumes=volumes,
            read_only_volumes=frozenset(
                [*(t for _, t, read_only in service.volumes if read_only)]
                + [SECRETS] * bool(service.secrets)
            ),
            limits=Limits.of(service),
            healthcheck=service.healthcheck,
            ports=service.ports,
            user=service.user,
        )

    def _secrets(self, service: Service) -> Path:
        """Write what a service may know; everybody in its container may read it, as with Compose
        itself."""
        folder = self.directory / "secrets" / service.name
        folder.mkdir(parents=True, exist_ok=True)
        for name, variable in service.secrets.items():
            assert variable in self.variables, f"{service.name} wants {variable}"
            (folder / name).write_text(self.variables[variable], encoding="utf-8")
            (folder / name).chmod(0o444)
        return folder


def _directory() -> Path:
    """A place for file systems and volumes: in memory if there is room, for an image is thousands
    of files; not below pytest's own directory, which only its user may enter."""
    memory = Path("/dev/shm")
    place = Path(tempfile.gettempdir())
    if memory.is_mount():
        status = os.statvfs(memory)
        roomy = status.f_bavail * status.f_frsize >= MEMORY_BYTES_MIN
        place = memory if roomy and not status.f_flag & os.ST_NOEXEC else place
    for left in place.glob(f"{PREFIX}*"):
        owner = left.name.removeprefix(PREFIX).partition("-")[0]
        if owner.isdecimal() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(left, ignore_errors=True)  # of a run that was killed
    made = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=place))
    made.chmod(0o755)
    return made


def succeeded(done: Finished) -> str:
    """Return the output of a command that must have succeeded."""
    assert done.code == 0, f"{done.code}\n{done.output}\n{done.errors}"
    return done.output

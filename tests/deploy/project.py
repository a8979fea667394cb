"""It imitates ``docker compose up``: the services of the compose file are in containers of ours."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from deploy.compose_file import Compose, Service, load
from deploy.container import Container, Finished, Limits
from deploy.image import Image, base_image, build
from deploy.network import Network
from deploy.zookeeper_image import JAVA, java_home, zookeeper_image

__all__ = ["Project"]

START_S = 60.0
NOBODY = 65534
PREFIX = "oncelog-compose-"
MEMORY_BYTES_MIN = 2 * 1024**3


class Project:
    """It runs the cluster of the compose file. ``up`` once, ``close`` always."""

    def __init__(self, repository: Path) -> None:
        self.repository = repository
        self.compose: Compose = load(repository / "docker-compose.yml")
        self.directory = _directory()
        self.network: Network | None = None
        self.containers: dict[str, Container] = {}
        try:
            self.image = build(repository, self.directory / "image")
            self.network = Network(self.directory)
        except BaseException:
            self.close()
            raise

    def up(self) -> None:
        """Start the services in their order, each when those that it waits for are healthy."""
        for service in self.compose.started():
            for other, condition in service.depends_on.items():
                assert condition == "service_healthy"
                self.containers[other].wait_healthy(START_S)
            self.containers[service.name] = container = self._container(service)
            container.start()
        for container in self.containers.values():
            container.wait_healthy(START_S)

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
        if image is None and not service.builds:
            assert service.image.startswith("zookeeper:"), service.image
            image = zookeeper_image(self.directory / "zookeeper-image", service.environment)
            volumes[JAVA] = java_home()
        return Container(
            service.name,
            image or self.image,
            self.network,
            self.directory / service.name,
            environment=service.environment,
            volumes=volumes,
            read_only_volumes=frozenset(t for _, t, read_only in service.volumes if read_only),
            limits=Limits.of(service),
            healthcheck=service.healthcheck,
            ports=service.ports,
        )


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

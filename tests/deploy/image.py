"""Each instruction of the Dockerfile is carried out without a container engine.

A stage is a directory that RUN steps are run in with chroot, as root, in mount and process
namespaces of their own. What an engine would bring and cannot be had here is stood in for: the base
image is this machine's /usr and the Python that runs the tests, at /usr/local as in the official
image; both are only read.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from deploy.compose_file import HealthCheck, seconds
from deploy.dockerfile import Instruction, Stage, context_files, parse

__all__ = ["Image", "base_image", "build", "system_mounts"]

PASSED_ON = re.compile(r"(?i)PIP_\w+|(https?|no)_proxy|SSL_CERT_\w+|REQUESTS_CA_BUNDLE")
"""Variables of this machine that say how it reaches a package index; an engine has build arguments
for that."""


@dataclass
class Image:
    """An image has a file system, and says what to run in it."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    user: str = "0:0"
    working_directory: str = "/"
    entrypoint: list[str] = field(default_factory=list)
    healthcheck: HealthCheck | None = None
    volumes: list[str] = field(default_factory=list)
    stop_signal: str = "SIGTERM"


def build(repository: Path, directory: Path) -> Image:
    """Build what the repository's Dockerfile makes, in ``directory``."""
    images: dict[str, Image] = {}
    for number, stage in enumerate(parse(repository / "Dockerfile")):
        image = base_image(directory / f"stage-{number}")
        for instruction in stage.instructions:
            _carry_out(instruction, stage, image, images, repository)
        images[stage.name] = image
    return image


def system_mounts(root: Path) -> list[str]:
    """Return shell commands that bring what every container has into ``root``."""
    mounts = [f"mount --bind /usr {root}/usr", f"mount -o remount,bind,ro {root}/usr"]
    if sys.base_prefix != "/usr":
        mounts.append(f"mount --bind {shlex.quote(sys.base_prefix)} {root}/usr/local")
        mounts.append(f"mount -o remount,bind,ro {root}/usr/local")
    return [*mounts, f"mount --rbind /dev {root}/dev", f"mount -t proc proc {root}/proc"]


def base_image(root: Path) -> Image:
    """Make a file system like that of the base image: Debian, and a Python in /usr/local."""
    for folder in ("dev", "etc", "opt", "proc", "root", "run", "src", "tmp", "usr", "var/lib"):
        (root / folder).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        there = Path("/", name)
        if there.is_symlink():
            (root / name).symlink_to(os.readlink(there))
        elif there.is_dir():
            shutil.copytree(there, root / name, symlinks=True)
    etc = ("ssl", "ca-certificates", "alternatives", "ld.so.conf.d", "pip.conf", "passwd", "group",
           "shadow", "gshadow", "login.defs", "nsswitch.conf", "resolv.conf", "hosts",
           "ld.so.cache", "ld.so.conf", "localtime", "protocols", "services")  # fmt: skip
    for name in etc:
        source, target = Path("/etc", name), root / "etc" / name
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True)
        elif source.exists():
            shutil.copy(source, target)
    (root / "etc/resolv.conf").touch()  # a container gets one of its own there
    path = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
    image = Image(root, environment={"PATH": path})
    _run(Instruction("RUN", {}, "ldconfig"), image)  # or a Python finds the system's libpython
    return image


def _carry_out(
    instruction: Instruction,
    stage: Stage,
    image: Image,
    images: dict[str, Image],
    repository: Path,
) -> None:
    keyword = instruction.keyword
    if keyword == "RUN":
        _run(instruction, image)
    elif keyword == "COPY":
        _copy(instruction, image, images, repository)
    elif keyword == "ENV":
        for name, value in instruction.pairs().items():
            image.environment[name] = re.sub(
                r"\$(\w+)", lambda match: image.environment[match[1]], value
            )
    elif keyword == "WORKDIR":
        image.working_directory = instruction.rest
        (image.root / instruction.rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
    elif keyword == "USER":
        image.user = instruction.rest
    elif keyword == "VOLUME":
        image.volumes += instruction.words()
    elif keyword == "ENTRYPOINT":
        image.entrypoint = instruction.words()
    elif keyword == "STOPSIGNAL":
        image.stop_signal = instruction.rest
    elif keyword == "HEALTHCHECK":
        image.healthcheck = _healthcheck(instruction)
    else:
        assert keyword in ("EXPOSE", "LABEL"), f"{stage.name}: {keyword}"


def _run(instruction: Instruction, image: Image) -> None:
    assert instruction.flags.keys() <= {"mount"}
    mounts = system_mounts(image.root)
    options = dict(
        part.split("=", 1) for part in instruction.flags.get("mount", "").split(",") if part
    )
    if options:
        assert options.keys() == {"type", "target"}
        assert options["type"] == "cache"
        cache = Path.home() / ".cache" / Path(options["target"]).name
        target = image.root / options["target"].lstrip("/")
        target.mkdir(parents=True, exist_ok=True)
        cache.mkdir(parents=True, exist_ok=True)
        mounts.append(f"mount --bind {shlex.quote(str(cache))} {target}")
    passed_on = {name: value for name, value in os.environ.items() if PASSED_ON.fullmatch(name)}
    environment = {"HOME": "/root", **passed_on, **image.environment}
    inside = ["env", "-i", "-C", image.working_directory]
    inside += [f"{name}={value}" for name, value in environment.items()]
    inside += ["/bin/sh", "-e", "-c", instruction.rest]
    script = "\n".join(
        ["set -e", *mounts, shlex.join(["exec", "chroot", str(image.root), *inside])]
    )
    done = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "/bin/sh", "-c", script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"RUN {instruction.rest}\n{done.stdout}"


def _copy(
    instruction: Instruction, image: Image, images: dict[str, Image], repository: Path
) -> None:
    source, target = instruction.words()
    place = Path(image.root, str(Path(image.working_directory, target)).lstrip("/"))
    if "from" in instruction.flags:
        origin = images[instruction.flags["from"]].root / source.lstrip("/")
        shutil.copytree(origin, place, symlinks=True, copy_function=_link)
        return
    assert source == "."
    for path in context_files(repository, repository / ".dockerignore"):
        copy = place / path.relative_to(repository)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy)


def _link(source: str, target: str) -> None:
    """In place of a copy: nobody writes to a finished stage."""
    os.link(source, target, follow_symlinks=False)


def _healthcheck(instruction: Instruction) -> HealthCheck:
    kind, _, command = instruction.rest.partition(" ")
    assert kind == "CMD"
    flags = instruction.flags
    return HealthCheck(
        tuple(Instruction("CMD", {}, command.strip()).words()),
        interval_s=seconds(flags["interval"]),
        timeout_s=seconds(flags["timeout"]),
        start_period_s=seconds(flags["start-period"]),
        retries=int(flags["retries"]),
    )

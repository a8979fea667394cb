"""It stands in for the official ZooKeeper image: the jars and the Java that ``oncelog up`` uses,
configured from the same variables as the image's entrypoint (3.9) configures its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from deploy.image import Image, base_image
from oncelog_cli.local.zookeeper import find_install

__all__ = ["JAVA", "configured", "java_home", "zookeeper_image"]

JAVA = "/opt/java"
DIRECTORIES = {"dataDir": "/data", "dataLogDir": "/datalog"}
USER = 1000
DEFAULTS = {
    "ZOO_TICK_TIME": "2000",
    "ZOO_INIT_LIMIT": "5",
    "ZOO_SYNC_LIMIT": "2",
    "ZOO_AUTOPURGE_PURGEINTERVAL": "0",
    "ZOO_AUTOPURGE_SNAPRETAINCOUNT": "3",
    "ZOO_MAX_CLIENT_CNXNS": "60",
    "ZOO_STANDALONE_ENABLED": "true",
    "ZOO_ADMINSERVER_ENABLED": "true",
}
"""The image's own environment, and by it every variable that is understood here."""
OPTIONS = {
    "ZOO_TICK_TIME": "tickTime",
    "ZOO_INIT_LIMIT": "initLimit",
    "ZOO_SYNC_LIMIT": "syncLimit",
    "ZOO_AUTOPURGE_PURGEINTERVAL": "autopurge.purgeInterval",
    "ZOO_AUTOPURGE_SNAPRETAINCOUNT": "autopurge.snapRetainCount",
    "ZOO_MAX_CLIENT_CNXNS": "maxClientCnxns",
    "ZOO_STANDALONE_ENABLED": "standaloneEnabled",
    "ZOO_ADMINSERVER_ENABLED": "admin.enableServer",
    "ZOO_4LW_COMMANDS_WHITELIST": "4lw.commands.whitelist",
}


def configured(environment: Mapping[str, str]) -> str:
    """Return ``zoo.cfg`` for the variables of a service."""
    given = {**DEFAULTS, **environment}
    unknown = given.keys() - OPTIONS.keys()
    assert not unknown, f"variables that nothing here understands: {sorted(unknown)}"
    lines = [f"{option}={place}" for option, place in DIRECTORIES.items()]
    lines += [f"{OPTIONS[name]}={value}" for name, value in given.items()]
    return "\n".join([*lines, "server.1=localhost:2888:3888;2181", ""])


def java_home() -> Path:
    """Return the Java of this machine, to be mounted at ``JAVA``."""
    return Path(find_install().java).resolve().parent.parent


def zookeeper_image(directory: Path, environment: Mapping[str, str]) -> Image:
    """Make an image with a server for the variables of a service."""
    image = base_image(directory)
    jars = image.root / "apache-zookeeper"
    jars.mkdir()
    for jar in find_install().class_path.split(os.pathsep):
        shutil.copy(jar, jars)
    for settings in Path("/etc").glob("java*"):  # Debian keeps a Java's settings there
        shutil.copytree(settings, image.root / "etc" / settings.name, symlinks=True)
    for place in ("data", "datalog", "logs", "conf", JAVA.lstrip("/")):
        (image.root / place).mkdir(parents=True, exist_ok=True)
        os.chown(image.root / place, USER, USER)
    (image.root / "conf" / "zoo.cfg").write_text(configured(environment), encoding="ascii")
    image.user = f"{USER}:{USER}"
    server = (
        f"{JAVA}/bin/java -Xmx64m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData "
        "-Djava.awt.headless=true -cp '/apache-zookeeper/*' "
        "org.apache.zookeeper.server.quorum.QuorumPeerMain /conf/zoo.cfg"
    )
    image.entrypoint = ["sh", "-c", f"test -e /data/myid || echo 1 > /data/myid; exec {server}"]
    return image

"""Log directories that cannot work are found before anything is made, with a remedy."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_broker.config import BrokerConfig, ConfigError
from oncelog_broker.log.checkpoint import META, encode_document
from oncelog_broker.preflight import check_directories, known_cluster_id
from oncelog_testing.memory.files import MemoryFiles


def config(*dirs: str, broker_id: int = 1) -> BrokerConfig:
    return BrokerConfig(broker_id=broker_id, log_dirs=list(dirs))


def files_with(**metas: dict[str, Any]) -> MemoryFiles:
    files = MemoryFiles()
    for name, meta in metas.items():
        files.make_dirs(f"/{name}")
        files.write_atomic_now(f"/{name}/{META}", encode_document(meta))
    return files


def test_new_directories_are_fine_and_stay_unmade() -> None:
    files = MemoryFiles()
    check_directories(files, config("/a/b/c", "/d"))
    assert not files.exists("/a")
    assert known_cluster_id(files, config("/a")) is None


def test_the_cluster_of_the_first_directory_that_knows() -> None:
    files = files_with(b={"broker_id": 1, "cluster_id": "c"})
    check_directories(files, config("/a", "/b"))
    assert known_cluster_id(files, config("/a", "/b")) == "c"


def test_another_brokers_data() -> None:
    files = files_with(a={"broker_id": 7, "cluster_id": "c"})
    with pytest.raises(ConfigError, match="'/a' holds the data of broker 7, and broker_id is 1"):
        check_directories(files, config("/a"))


def test_directories_of_two_clusters() -> None:
    files = files_with(a={"broker_id": 1, "cluster_id": "c"}, b={"broker_id": 1, "cluster_id": "d"})
    with pytest.raises(ConfigError, match="'/a' to c, '/b' to d"):
        check_directories(files, config("/a", "/b"))


@pytest.mark.parametrize("path", ["/file", "/file/below", "/file/deep/below"])
def test_files_are_no_directories(path: str) -> None:
    files = MemoryFiles()
    files.open("/file", create=True)
    with pytest.raises(ConfigError) as caught:
        check_directories(files, config(path))
    assert caught.value.key == "log_dirs"
    assert not files.exists(f"{path}/{META}")


def test_a_damaged_identity_is_left_to_the_log_manager() -> None:
    files = MemoryFiles()
    files.make_dirs("/a")
    files.write_atomic_now(f"/a/{META}", b"\0\0\0")
    check_directories(files, config("/a"))
    assert known_cluster_id(files, config("/a")) is None


class ReadOnlyFiles(MemoryFiles):
    def is_writable(self, path: str) -> bool:
        return False


@pytest.mark.parametrize("exists", [False, True])
def test_a_directory_that_may_not_be_written(exists: bool) -> None:
    files = ReadOnlyFiles()
    if exists:
        files.make_dirs("/data/a")
    else:
        files.make_dirs("/data")
    with pytest.raises(ConfigError, match="is not writable for this user"):
        check_directories(files, config("/data/a"))

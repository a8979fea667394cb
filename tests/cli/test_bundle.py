"""A support bundle is bounded, masked, and notes what is missing."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

from oncelog_cli import bundle as module
from oncelog_cli.bundle import MANIFEST, MASK, Bundle, masked_text, masked_value


def opened(bytes_left: int = 1000) -> tuple[Bundle, io.BytesIO]:
    file = io.BytesIO()
    return Bundle(zipfile.ZipFile(file, "w"), bytes_left), file


def finished(bundle: Bundle, file: io.BytesIO) -> tuple[dict[str, bytes], dict[str, Any]]:
    bundle.finish({"bootstrap": "a:1"})
    bundle.archive.close()
    with zipfile.ZipFile(file) as archive:
        found = {name: archive.read(name) for name in archive.namelist()}
    return found, json.loads(found.pop(MANIFEST))


def test_parts_and_manifest() -> None:
    bundle, file = opened()
    bundle.add_json("a.json", {"x": object})
    bundle.fail("b.json", "nobody answered")
    files, manifest = finished(bundle, file)
    assert list(files) == ["a.json"]
    assert manifest["bootstrap"] == "a:1"
    assert [(part["name"], part["error"]) for part in manifest["parts"]] == [
        ("a.json", None),
        ("b.json", "nobody answered"),
    ]


def test_the_whole_is_bounded() -> None:
    bundle, file = opened(100)
    bundle.add("large", b"x" * 101)
    bundle.add("small", b"x" * 60)
    bundle.add("second", b"x" * 60)
    files, manifest = finished(bundle, file)
    assert {name: len(data) for name, data in files.items()} == {"small": 60}
    assert "left out: 101 bytes" in manifest["parts"][0]["error"]
    assert "40 were left" in manifest["parts"][2]["error"]


def test_of_a_log_its_end(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "LOG_BYTES_MAX", 25)
    log = tmp_path / "broker.log"
    log.write_bytes(b"first line\nsecond line\nthird \xff line\n")
    bundle, file = opened()
    bundle.add_log("log", log)
    bundle.add_log("none", tmp_path / "none")
    bundle.add_settings("toml", tmp_path / "none")
    files, manifest = finished(bundle, file)
    assert files["log"] == "third � line\n".encode()
    assert manifest["parts"][0]["cut"]
    assert [bool(part["error"]) for part in manifest["parts"]] == [False, True, True]


def test_secrets_are_masked() -> None:
    text = 'broker_id = 1\nssl_key_password = "hunter2"\n  "api.token": abc,\nkey = "k"\n'
    masked = masked_text(text)
    assert "hunter2" not in masked
    assert "abc" not in masked
    assert masked.count(MASK) == 2
    assert 'key = "k"' in masked
    assert masked_value("sasl_password", "x") == MASK
    assert masked_value("sasl_password", None) is None
    assert masked_value("retention_ms", "5") == "5"

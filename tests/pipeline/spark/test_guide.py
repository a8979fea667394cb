"""The tests' one session is used for the blocks of docs/spark.md that need Spark.

``tests/docs`` runs the others, and says how pages are tested.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from docs.blocks import Block, blocks_of
from docs.host import host
from docs.page import Page
from integration.processes import Processes
from support.house import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.timeout(400)]

PAGE = "docs/spark.md"


def test_the_guide_to_spark_does_what_it_says(
    spark: SparkSession, processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = [b for b in blocks_of(PAGE, (ROOT / PAGE).read_text()) if not b.get("not run")]
    with host(tmp_path) as shims:
        beside = Page(tmp_path, shims, processes.bootstrap)
        try:
            monkeypatch.chdir(beside.folder)
            # Spark's own process stands in another folder.
            beside.names.learn("shouted-state", str(beside.folder / "shouted-state"))
            names: dict[str, Any] = {}
            for block in blocks:
                if block.language == "toml":
                    beside.save(block)
                elif block.get("elsewhere"):
                    beside.around(block, "given")
                    for source in (block.get("before"), block.text, block.get("after")):
                        exec(_code(beside, block, source), names)
                    beside.around(block, "then")
            assert names["spark"] is spark
        finally:
            beside.close()


def _code(page: Page, block: Block, source: str) -> Any:
    return compile("\n" * block.line + page.names.replace(source), block.page, "exec")

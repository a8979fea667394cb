"""Tables are shown by schema and first rows, and no table harms the console."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from oncelog_console.process_limits import ProcessLimits
from oncelog_console.tables import Tables

pytestmark = pytest.mark.slow

TABLE = pa.table({"id": list(range(100)), "name": [f"<b>{n}</b>" for n in range(100)]})


def parquet(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, compression="zstd")
    return out.getvalue()


def arrow(table: pa.Table, kind: str) -> bytes:
    out = io.BytesIO()
    new = pyarrow.ipc.new_file if kind == "arrow" else pyarrow.ipc.new_stream
    with new(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


# ---- table_worker.py: what it reads


@pytest.mark.parametrize("kind", ["parquet", "arrow", "arrow stream"])
async def test_schema_and_first_rows(kind: str) -> None:
    data = parquet(TABLE) if kind == "parquet" else arrow(TABLE, kind)
    form = await Tables().form_of(data)
    assert form is not None
    lines = form.text.splitlines()
    assert lines[:4] == ["id: int64", "name: string", "", "id=0, name=<b>0</b>"]
    assert len(lines) == 3 + 20


async def test_a_library_that_crashes_as_the_interpreter_ends_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import atexit, os; atexit.register(os.abort)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    form = await Tables().form_of(parquet(TABLE))
    assert form is not None
    assert form.text.startswith("id: int64")


async def test_what_is_no_table_or_a_broken_one() -> None:
    assert await Tables().form_of(b"{}") is None
    for data in (b"PAR1 nothing PAR1", b"ARROW1\0\0 nothing", b"\xff\xff\xff\xff\xff\xff\xff\x7f1"):
        form = await Tables().form_of(data)
        assert form is not None
        assert form.text


async def test_a_table_that_says_it_is_large_ends_its_reader_alone() -> None:
    bomb = parquet(pa.table({"zeros": pa.array([b"\0" * (64 << 20)] * 8)}))
    assert len(bomb) < 1 << 20
    form = await Tables(ProcessLimits(memory_bytes=700 << 20, cpu_s=5)).form_of(bomb)
    assert form is not None
    assert form.text.startswith("parquet: ")

"""One table is read in this program, with limits: ``python -m oncelog_console.table_worker``.

Standard input has a line of JSON with ``kind``, ``bytes`` and ``limits``, and then the bytes. Its
schema and first rows go to standard output as text.

The program leaves out the interpreter's own end: threads of Arrow may outlive a read, and one that
touches Python then crashes the process, although all was read (apache/arrow#33975, #34314).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any

from oncelog_console.process_limits import EXIT_MEMORY, ProcessLimits

ROWS = 20
CELL_LENGTH = 200


def main() -> int:
    """Read the table of standard input; return the exit code."""
    head = json.loads(sys.stdin.buffer.readline())
    data = sys.stdin.buffer.read(head["bytes"])
    # Arrow's own allocators reserve more address space than they use.
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    os.environ["OMP_NUM_THREADS"] = "1"
    ProcessLimits(**head["limits"]).apply()
    try:
        import pyarrow as pa
    except ImportError:
        sys.stderr.write("pyarrow would read it: install oncelog[arrow]\n")
        return 1
    try:
        source = pa.BufferReader(data)
        is_parquet = head["kind"] == "parquet"
        schema, rows = _parquet(source) if is_parquet else _arrow(source, head["kind"])
        sys.stdout.write(f"{schema.to_string(show_schema_metadata=False)}\n\n")
        for row in islice(rows, ROWS):
            sys.stdout.write(f"{_row_text(row)}\n")
    except (pa.ArrowException, OSError, ValueError) as error:
        sys.stderr.write(f"{error}".replace("\n", " ") + "\n")
        return 1
    except MemoryError:
        return EXIT_MEMORY
    return 0


def _arrow(source: Any, kind: str) -> tuple[Any, Iterator[dict[str, Any]]]:
    import pyarrow.ipc

    if kind == "arrow":
        file = pyarrow.ipc.open_file(source)
        batches = (file.get_batch(number) for number in range(file.num_record_batches))
        return file.schema, _rows(batches)
    stream = pyarrow.ipc.open_stream(source)
    return stream.schema, _rows(stream)


def _parquet(source: Any) -> tuple[Any, Iterator[dict[str, Any]]]:
    import pyarrow.parquet

    file = pyarrow.parquet.ParquetFile(source)
    return file.schema_arrow, _rows(file.iter_batches(batch_size=ROWS, use_threads=False))


def _rows(batches: Any) -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield from batch.slice(0, ROWS).to_pylist()


def _row_text(row: dict[str, Any]) -> str:
    cells = []
    for name, value in row.items():
        text = str(value)
        cells.append(f"{name}={text[:CELL_LENGTH]}{'…' if len(text) > CELL_LENGTH else ''}")
    return ", ".join(cells)


def _end(code: int) -> None:
    """End the process at once, with what it has written."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _end(main())

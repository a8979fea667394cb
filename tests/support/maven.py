"""A Maven repository on this machine serves jars to tests."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Repository:
    """This Maven repository on this machine serves a folder, and notes what was asked of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.asked: list[str] = []
        self.address = ""

    def put(self, path: str, content: bytes) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes(content)


@contextmanager
def served(root: Path) -> Iterator[Repository]:
    repository = Repository(root)

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            repository.asked.append(self.path)
            super().do_GET()

        def log_message(self, *arguments: Any) -> None: ...

    handler = functools.partial(Handler, directory=str(root))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        repository.address = f"http://127.0.0.1:{server.server_address[1]}/"
        try:
            yield repository
        finally:
            server.shutdown()
            thread.join()

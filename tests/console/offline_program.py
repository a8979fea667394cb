"""This program starts a broker and a console on a machine without a network, and loads what a
browser loads of each page. It ends with one line of JSON: what was loaded, and the status of each.
"""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
from urllib.parse import urlsplit

from oncelog.testing import Cluster

PATHS = ("/", "/topics", "/topics/orders", "/groups", "/transactions", "/brokers", "/settings")
LOADED = re.compile(r'<(?:script|img|link)\b[^>]*?(?:src|href)="([^"]+)"')


def fetch(address: str, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(address, timeout=20)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def main() -> None:
    """Look at everything."""
    with Cluster() as cluster:
        cluster.create_topic("orders")
        command = [sys.executable, "-m", "oncelog_console", "--port=0"]
        command += ["--bootstrap", cluster.bootstrap]
        console = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert console.stdout is not None
            line = console.stdout.readline()
            address = urlsplit(line.removeprefix("console listening on ").strip()).netloc
            seen = {}
            for path in PATHS:
                seen[path], page = fetch(address, path)
                for part in LOADED.findall(page):
                    seen[part] = fetch(address, part)[0]
            print(json.dumps(seen))
        finally:
            console.terminate()
            console.wait(30)


if __name__ == "__main__":
    main()

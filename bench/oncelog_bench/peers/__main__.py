"""``python -m oncelog_bench.peers``: Apache Kafka and Oncelog in one run, side by side."""

from __future__ import annotations

import sys

from oncelog_bench.__main__ import main

raise SystemExit(main(["--peers", *sys.argv[1:]]))

"""Apache Kafka and Oncelog are measured in one run by ``python -m oncelog_bench.peers``."""

from __future__ import annotations

import sys

from oncelog_bench.__main__ import main

raise SystemExit(main(["--peers", *sys.argv[1:]]))

"""This is called by ``python -m pyspark_oncelog`` and ``spark-submit``: see ``runner``."""

from __future__ import annotations

import sys

from pyspark_oncelog.runner.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

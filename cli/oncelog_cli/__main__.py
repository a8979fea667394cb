"""``python -m oncelog_cli`` does the same as the ``oncelog`` command."""

from __future__ import annotations

from oncelog_cli.main import main

main()
